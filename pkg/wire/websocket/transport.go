// Package websocket carries whole messages: over a websocket, as lines over a
// pair of streams, and by other implementations of Transport.
//
// Conn is a websocket connection at either end, of clients, servers and relays.
// Dial and Upgrade make one. This package implements what these ends have in
// common: the frames, writing several in one system call, pings and pongs,
// deadlines, limits and closing. Queues belong to the callers, because each
// protocol has its own rules for the order of messages and for back-pressure.
//
// gorilla/websocket reads the frames, but this package writes them. If the library also wrote
// them, the server would need 1.2 to 1.4 times the processor time for the output of a pipe
// (docs/performance.md), because the library copies each message and writes it separately.
//
// A connection has one reader and one writer, which may run at the same time. A
// writer sends messages in one of three ways. Add gathers frames, and Flush
// writes them: for messages that other code has built. With Open, Seal and
// WriteFrames, which all transports have, messages are encoded one after the
// other into the writer's own buffer, and not copied. WriteText writes one
// message.
package websocket

import (
	"errors"
	"fmt"
)

// Close codes of RFC 6455 that Close understands; transports without close
// frames ignore them.
const (
	CloseNormal          = 1000
	CloseGoingAway       = 1001
	CloseProtocolError   = 1002
	CloseInvalidUTF8     = 1007
	ClosePolicyViolation = 1008
	CloseTooLarge        = 1009
	CloseInternalError   = 1011
	CloseServiceRestart  = 1012
	CloseTryAgainLater   = 1013

	// closeNoStatus is the code for a close frame without a code.
	closeNoStatus = 1005
)

// ErrClosed is the error of ReadMessage after the peer has ended the connection normally, with
// a websocket close frame.
var ErrClosed = errors.New("the peer closed the connection")

// ErrSilent is the error of ReadMessage when the peer is lost: it has not answered pings and
// has given no other sign of life.
var ErrSilent = errors.New("the peer gives no sign of life")

// CloseError is the error of a websocket that its peer has closed normally. It matches
// ErrClosed.
type CloseError struct {
	Code   int
	Reason string // the peer's own text
}

func (e *CloseError) Error() string { return ErrClosed.Error() }

// Is reports whether target is ErrClosed.
func (e *CloseError) Is(target error) bool { return target == ErrClosed }

// TooLargeError means that an incoming message exceeds the limit.
type TooLargeError struct {
	// Limit is the largest accepted size, in bytes.
	Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("message exceeds the limit of %d bytes", e.Limit)
}

// FragmentRoom is the number of free bytes that Fragment needs before a part.
const FragmentRoom = 16

// Transport is one connection that carries whole messages.
type Transport interface {
	// ReadMessage waits for the next message. It returns io.EOF at the normal end of a stream
	// that can still be written to (stdio), ErrClosed after a close frame, *TooLargeError for a
	// message that exceeds the limit, and other errors if the connection has failed. After any
	// error, no more messages can be read. Only one goroutine may call it.
	ReadMessage() (*Message, error)

	// Open appends space for the head of a frame to b. The caller then appends
	// the message's text.
	Open(b []byte) []byte

	// Seal turns the message that was appended to b since Open into its wire
	// form, and returns the extended buffer. start is the length of b before
	// Open.
	Seal(b []byte, start int) []byte

	// WriteFrames sends sealed messages. Only one goroutine may call it at a
	// time.
	WriteFrames(frames []byte) error

	// Fragment sends one part of a message that is too large to be built in memory. The parts
	// are sent in order. first marks the first part, and last the last one. The first
	// FragmentRoom bytes of part are space for the frame's head and not part of the text.
	// Fragment must not be called while another goroutine is in WriteFrames.
	Fragment(part []byte, first, last bool) error

	// Close closes the connection. It sends the peer code and reason if the
	// transport can, and waits a bounded time for the peer to read them. It may
	// be called at any time, from any goroutine, more than once. A blocked
	// ReadMessage or write returns.
	Close(code int, reason string) error

	// Abort closes the connection without a message to the peer.
	Abort() error

	// Peer describes the other end for logs and error texts.
	Peer() string
}

// Suspender is a Transport that can survive the loss of its network connection for a while,
// such as a stream over a relay.
type Suspender interface {
	// Suspended reports whether the network connection is lost and nothing has arrived since.
	// Another client may take over the session of a suspended connection. Suspended may be
	// called at any time, from any goroutine.
	Suspended() bool
}

// Authenticated is a Transport whose peer is authenticated.
type Authenticated interface {
	// Principal returns the peer's name, which is the same for all connections
	// with the same credentials.
	Principal() string
}
