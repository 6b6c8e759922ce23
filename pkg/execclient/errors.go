package execclient

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/jsonrpc"
	"codex.internal/pkg/wire/websocket"
)

// The errors that a caller may look for with errors.Is.
var (
	// ErrClosed is what calls return when there is no connection any more:
	// the client was closed, or its connection broke and was not recovered.
	ErrClosed = errors.New("exec-server transport closed")
	// ErrSandboxDenied says that a command failed, and that its sandbox
	// probably denied it something.
	ErrSandboxDenied = errors.New("the sandbox on the executor probably denied it")
	// ErrStdinClosed says that a process takes no more input.
	ErrStdinClosed = errors.New("the process's stdin is closed")
	// ErrUnknownProcess says that the server does not know the process (any
	// more).
	ErrUnknownProcess = errors.New("the server does not know the process")
	// ErrStarting says that a process has not been started yet.
	ErrStarting = errors.New("the process is starting")
	// ErrEventsLost says that events of a process are retained no more; the
	// error is an *EventsLostError.
	ErrEventsLost = errors.New("process events are no longer retained")
	// ErrUnsupported says that the server cannot do what was asked for.
	ErrUnsupported = fmt.Errorf("the server does not support it: %w", errors.ErrUnsupported)
	// ErrNoLimits says that the server cannot limit what a process uses, and that this
	// was required.
	ErrNoLimits = fmt.Errorf("this server cannot limit what a process uses: %w", ErrUnsupported)
	// ErrNoCloseStdin says that the server cannot end a process's input.
	ErrNoCloseStdin = fmt.Errorf("this server cannot close a process's stdin: %w", ErrUnsupported)
)

// ServerError is an error that the server answered with.
type ServerError struct {
	Method  string
	Code    int
	Message string
}

func (e *ServerError) Error() string {
	return fmt.Sprintf("exec-server rejected request (%d): %s", e.Code, e.Message)
}

// Unwrap returns the error as the predicates of package execproto know it.
func (e *ServerError) Unwrap() error { return &jsonrpc.Error{Code: e.Code, Message: e.Message} }

// LeftOutError says that FS.Copy copied all of a directory but pipes, sockets and
// devices: Count of them, of which URIs names the first 100.
type LeftOutError struct {
	Count uint64
	URIs  []string
}

func (e *LeftOutError) Error() string {
	return fmt.Sprintf("copied all but %d pipes, sockets or devices: %s", e.Count, strings.Join(e.URIs, ", "))
}

// ProtocolError says that the server broke the protocol.
type ProtocolError struct{ Message string }

func (e *ProtocolError) Error() string { return "exec-server protocol error: " + e.Message }

func protocolf(format string, args ...any) error {
	return &ProtocolError{fmt.Sprintf(format, args...)}
}

// DisconnectedError says that the connection was lost and, where the client
// recovers, that it could not be recovered. It is ErrClosed too.
type DisconnectedError struct{ Message string }

func (e *DisconnectedError) Error() string { return e.Message }

// Is reports whether target is ErrClosed.
func (e *DisconnectedError) Is(target error) bool { return target == ErrClosed }

// DialError says that no connection could be made. It is worth another try.
type DialError = websocket.DialError

// InitTimeoutError says that the server did not answer initialize in time.
type InitTimeoutError struct{ Timeout time.Duration }

func (e *InitTimeoutError) Error() string {
	return fmt.Sprintf("timed out waiting for exec-server initialize handshake after %v", e.Timeout)
}

// Retryable reports that another attempt may succeed.
func (e *InitTimeoutError) Retryable() bool { return true }

// EventsLostError says that the events of a process after the one numbered
// After are lost: the server retains them no more. Next is the first that it
// still has, or 0 if there is none. It is ErrEventsLost too.
type EventsLostError struct {
	ProcessID   string
	After, Next uint64
	Err         error // what else is known of it; may be nil
}

func (e *EventsLostError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%v (the events of process %s after number %d are lost)", e.Err, e.ProcessID, e.After)
	}
	return fmt.Sprintf("the events of process %s after number %d are lost: the server retains them no more", e.ProcessID, e.After)
}

// Is reports whether target is ErrEventsLost.
func (e *EventsLostError) Is(target error) bool { return target == ErrEventsLost }

func (e *EventsLostError) Unwrap() error { return e.Err }

// IsCode reports whether err is a server's error with that code.
func IsCode(err error, code int) bool {
	var e *ServerError
	return errors.As(err, &e) && e.Code == code
}

// transportClosed is a server's way to say that it is losing the connection.
const (
	codeTransportClosed = -32000
	textTransportClosed = "JSON-RPC transport closed"
)

// isDown reports whether a call failed with its connection.
func isDown(err error) bool {
	var e *ServerError
	return errors.Is(err, errDown) || errors.As(err, &e) && e.Code == codeTransportClosed && e.Message == textTransportClosed
}

// retryable reports whether another attempt to resume a session may succeed.
func retryable(err error) bool {
	var r interface{ Retryable() bool }
	return isDown(err) || IsCode(err, execproto.CodeSessionAttached) || errors.As(err, &r) && r.Retryable()
}
