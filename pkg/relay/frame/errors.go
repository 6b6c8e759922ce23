package frame

//lint:file-ignore ST1005 Codex CLI's words

import (
	"errors"
	"time"
)

// The errors of frames.
var (
	// ErrUndecodable means that a message is not a frame.
	ErrUndecodable = errors.New("invalid relay message frame")
	// ErrInvalid means that a frame breaks the rules: it must not be sent, and is ignored
	// if received.
	ErrInvalid = errors.New("relay message frame is not valid")
)

var (
	errNoStreamID = invalid("relay message frame is missing stream_id")
	errNoBody     = invalid("relay message frame is missing body")
	errDataFields = invalid("relay data message frame is missing required fields")
	errNoReason   = invalid("relay reset message frame is missing reason")
	errNoPayload  = invalid("relay handshake message frame is missing payload")
)

// invalidError is an ErrInvalid with its own text.
type invalidError string

func invalid(text string) error { return invalidError(text) }

func (e invalidError) Error() string        { return string(e) }
func (e invalidError) Is(target error) bool { return target == ErrInvalid }

// These errors end a stream.
var (
	// ErrReset means that the peer has ended the stream.
	ErrReset = errors.New("Noise relay stream reset")
	// ErrProtocol means that the peer or the relay has violated the protocol. The error that wraps
	// it describes the violation.
	ErrProtocol = errors.New("Noise relay protocol error")
	// ErrExhausted means that all sequence numbers are used.
	ErrExhausted = errors.New("Noise relay sequence number exhausted")
	// ErrLost means that the connection or the peer is lost and the stream cannot continue. The
	// error that wraps it describes how this was detected.
	ErrLost = errors.New("Noise relay stream lost")
)

// ErrNotReady means that Send was called while Ready was false. The stream is
// unchanged, and the record was not sent.
var ErrNotReady = errors.New("Noise relay stream has no room for a record")

// protocolError is an ErrProtocol with its own text.
type protocolError string

func (e protocolError) Error() string        { return string(e) }
func (e protocolError) Is(target error) bool { return target == ErrProtocol }

// lostError is ErrLost with a description of how the loss was detected, and possibly a time. It
// does not use fmt.Errorf, which would format each text when the program starts.
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
	errNoRecord     error = &lostError{"no record came in ", firstRecordTime, " after the handshake"}
)
