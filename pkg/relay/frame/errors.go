package frame

//lint:file-ignore ST1005 Codex CLI's words

import (
	"errors"
	"fmt"
)

// The errors of frames.
var (
	// ErrUndecodable says that a message is no frame at all.
	ErrUndecodable = errors.New("invalid relay message frame")
	// ErrInvalid says that a frame must not be sent, and is not acted upon.
	ErrInvalid = errors.New("relay message frame is not valid")
)

var (
	errNoStreamID = invalid("relay message frame is missing stream_id")
	errNoBody     = invalid("relay message frame is missing body")
	errDataFields = invalid("relay data message frame is missing required fields")
	errNoReason   = invalid("relay reset message frame is missing reason")
	errNoPayload  = invalid("relay handshake message frame is missing payload")
)

// invalidError is an ErrInvalid with a text of its own.
type invalidError string

func invalid(text string) error { return invalidError(text) }

func (e invalidError) Error() string        { return string(e) }
func (e invalidError) Is(target error) bool { return target == ErrInvalid }

// How a stream ends. Each is final.
var (
	// ErrReset says that the peer has ended the stream.
	ErrReset = errors.New("Noise relay stream reset")
	// ErrProtocol says that the peer, or whoever forwards its frames, did what
	// no peer does. It is wrapped with what that was.
	ErrProtocol = errors.New("Noise relay protocol error")
	// ErrExhausted says that as many records were sent as can be numbered.
	ErrExhausted = errors.New("Noise relay sequence number exhausted")
	// ErrLost says that the connection or the peer is gone and the stream
	// cannot go on. It is wrapped with how that was noticed.
	ErrLost = errors.New("Noise relay stream lost")
)

// ErrNotReady says that Send was called while Ready was false. The stream is
// as it was, and the record has not been sent.
var ErrNotReady = errors.New("Noise relay stream has no room for a record")

// protocolError is an ErrProtocol with a text of its own.
type protocolError string

func (e protocolError) Error() string        { return string(e) }
func (e protocolError) Is(target error) bool { return target == ErrProtocol }

var (
	errReorderWindow error = protocolError("Noise relay ciphertext exceeds reorder window")
	errPendingFull   error = protocolError("Noise relay pending ciphertext buffer is full")
	errUnexpected    error = protocolError("Noise relay received invalid post-handshake frame")

	errDisconnected = fmt.Errorf("%w: its websocket ended", ErrLost)
	errNotRestored  = fmt.Errorf("%w: its websocket was not replaced in %v", ErrLost, retainTime)
	errNoAnswer     = fmt.Errorf("%w: nothing came in %v after it was resumed", ErrLost, answerTime)
	errStalled      = fmt.Errorf("%w: no record was acknowledged in %v", ErrLost, stallTime)
	errSilent       = fmt.Errorf("%w: nothing came in %v", ErrLost, silenceTime)
)
