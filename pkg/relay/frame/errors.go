package frame

//lint:file-ignore ST1005 Codex CLI's words

import (
	"errors"
	"time"
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

// lostError is ErrLost with how that was noticed, perhaps after a time. fmt.Errorf would format
// each text when the program starts.
type lostError struct {
	text string
	time time.Duration // 0: none
	more string
}

func (e *lostError) Error() string {
	text := ErrLost.Error() + ": " + e.text
	if e.time != 0 {
		text += e.time.String()
	}
	return text + e.more
}

func (e *lostError) Unwrap() error { return ErrLost }

var (
	errReorderWindow error = protocolError("Noise relay ciphertext exceeds reorder window")
	errPendingFull   error = protocolError("Noise relay pending ciphertext buffer is full")
	errUnexpected    error = protocolError("Noise relay received invalid post-handshake frame")

	errDisconnected error = &lostError{text: "its websocket ended"}
	errNotRestored  error = &lostError{"its websocket was not replaced in ", retainTime, ""}
	errNoAnswer     error = &lostError{"nothing came in ", answerTime, " after it was resumed"}
	errStalled      error = &lostError{"no record was acknowledged in ", stallTime, ""}
	errSilent       error = &lostError{"nothing came in ", silenceTime, ""}
)
