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

// Errors for errors.Is.
var (
	// ErrClosed means that there is no connection any more: the client was closed, or its
	// connection was lost and not recovered.
	ErrClosed = errors.New("exec-server transport closed")
	// ErrSandboxDenied means that a command failed, probably because its sandbox denied it
	// something.
	ErrSandboxDenied = errors.New("the sandbox on the executor probably denied it")
	// ErrStdinClosed means that a process accepts no more input.
	ErrStdinClosed = errors.New("the process's stdin is closed")
	// ErrUnknownProcess means that the server does not know the process, or no longer knows
	// it.
	ErrUnknownProcess = errors.New("the server does not know the process")
	// ErrStarting means that a process is still being started.
	ErrStarting = errors.New("the process is starting")
	// ErrEventsLost means that events of a process are not retained any more. The error is an
	// *EventsLostError.
	ErrEventsLost = errors.New("process events are no longer retained")
	// ErrUnsupported means that the server does not support the operation.
	ErrUnsupported = fmt.Errorf("the server does not support it: %w", errors.ErrUnsupported)
	// ErrNoLimits means that limits were required and the server cannot limit processes.
	ErrNoLimits = fmt.Errorf("this server cannot limit the resources of a process: %w", ErrUnsupported)
	// ErrNoCloseStdin means that the server cannot end a process's input.
	ErrNoCloseStdin = fmt.Errorf("this server cannot close a process's stdin: %w", ErrUnsupported)
)

// ServerError is an error in a server's answer.
type ServerError struct {
	Method  string
	Code    int
	Message string
	Data    []byte // JSON text; nil: none
}

func (e *ServerError) Error() string {
	return fmt.Sprintf("exec-server rejected request (%d): %s", e.Code, e.Message)
}

// Unwrap returns the error for the predicates of package execproto.
func (e *ServerError) Unwrap() error {
	return &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: e.Data}
}

// LeftOutError means that FS.Copy copied all of a directory except pipes, sockets and devices:
// Count of them. URIs has the first 100.
type LeftOutError struct {
	Count uint64
	URIs  []string
}

func (e *LeftOutError) Error() string {
	return fmt.Sprintf("copied all but %d pipes, sockets or devices: %s", e.Count, strings.Join(e.URIs, ", "))
}

// ProtocolError means that the server violated the protocol.
type ProtocolError struct{ Message string }

func (e *ProtocolError) Error() string { return "exec-server protocol error: " + e.Message }

func protocolf(format string, args ...any) error {
	return &ProtocolError{fmt.Sprintf(format, args...)}
}

// DisconnectedError means that the connection was lost and, in a client that recovers, that
// recovery failed. It matches ErrClosed.
type DisconnectedError struct {
	Message string
	// Reason is what the server has said when it closed the connection, such as that the token has expired; "": nothing.
	Reason string
}

func (e *DisconnectedError) Error() string { return e.Message }

// Is reports whether target is ErrClosed.
func (e *DisconnectedError) Is(target error) bool { return target == ErrClosed }

// DialError means that a connection could not be made. Another attempt may succeed.
type DialError = websocket.DialError

// InitTimeoutError means that the server did not answer initialize in time.
type InitTimeoutError struct{ Timeout time.Duration }

func (e *InitTimeoutError) Error() string {
	return fmt.Sprintf("timed out waiting for exec-server initialize handshake after %v", e.Timeout)
}

// Retryable reports that another attempt may succeed.
func (e *InitTimeoutError) Retryable() bool { return true }

// EventsLostError means that the server does not retain the events of a process after number
// After. Next is the first event that it still has, or 0 if there is none. It matches
// ErrEventsLost.
type EventsLostError struct {
	ProcessID   string
	After, Next uint64
	Err         error // a further reason; may be nil
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

// transportClosed is the error that the server returns while it loses the connection.
const (
	codeTransportClosed = -32000
	textTransportClosed = "JSON-RPC transport closed"
)

// isDown reports whether a call failed because the connection was lost.
func isDown(err error) bool {
	var e *ServerError
	return errors.Is(err, errDown) || errors.As(err, &e) && e.Code == codeTransportClosed && e.Message == textTransportClosed
}

// retryable reports whether another attempt to resume a session may succeed.
func retryable(err error) bool {
	var r interface{ Retryable() bool }
	return isDown(err) || IsCode(err, execproto.CodeSessionAttached) || errors.As(err, &r) && r.Retryable()
}
