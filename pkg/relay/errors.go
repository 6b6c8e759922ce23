package relay

//lint:file-ignore ST1005 Codex CLI's words

import (
	"errors"
	"fmt"

	"codex.internal/pkg/relay/frame"
)

// ErrClosed is returned by a stream's methods after this end has closed the stream.
var ErrClosed = errors.New("Noise relay stream closed")

// HandshakeError is the error of a harness's handshake that failed.
type HandshakeError struct {
	text string
	err  error // may be nil
}

func (e *HandshakeError) Error() string { return e.text }
func (e *HandshakeError) Unwrap() error { return e.err }

// Retryable returns true, because the executor or the relay may have been about to be replaced.
func (e *HandshakeError) Retryable() bool { return true }

var (
	errAborted    = fmt.Errorf("%w: aborted", ErrClosed)
	errURL        = errors.New("expected a ws:// or wss:// URL")
	errStopped    = errors.New("the executor is stopping")
	errLinkDown   = errors.New("Noise relay websocket ended")
	errLinkFull   = errors.New("Noise relay websocket has no room for a record")
	errNotBinary  = errors.New("Noise relay transport expects binary protobuf frames")
	errInboxFull  = errors.New("Noise relay stream inbox is full: its messages are not read")
	errReplaced   = fmt.Errorf("%w: the executor has registered again", frame.ErrLost)
	errOther      = fmt.Errorf("%w: the executor was replaced", frame.ErrLost)
	errInvalid    = errors.New("Noise relay received invalid post-handshake frame")
	errTooLarge   = errors.New("Noise relay JSON-RPC message exceeds maximum length")
	errRejected   = errors.New("the authorization is malformed")
	errUnsendable = errors.New("other peers refuse the stream's id")
)
