// Package transport moves whole JSON-RPC messages: over a websocket, as lines
// over a pair of streams, and (as further implementations of Conn) over
// anything that keeps message boundaries.
//
// A connection has one reader and one writer, which may run at the same time.
// Reading hands out pooled buffers that the reader owns until it releases
// them. Writing is split in two so that many messages can share one system
// call: the writer encodes messages one after the other into a buffer of its
// own, seals each into its wire form with Seal, and sends the lot with
// WriteFrames.
package transport

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
)

// ErrClosed is what ReadMessage returns after the peer ended the connection
// in an orderly way: a websocket close frame.
var ErrClosed = errors.New("the peer closed the connection")

// TooLargeError says that an incoming message is over the limit.
type TooLargeError struct {
	// Limit is the most that is accepted, in bytes.
	Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("message exceeds the limit of %d bytes", e.Limit)
}

// FragmentRoom is the room that Fragment wants before a part.
const FragmentRoom = 16

// Conn is one connection that carries whole messages.
type Conn interface {
	// ReadMessage blocks for the next message. It returns io.EOF at the
	// orderly end of a stream that can still be written to (stdio),
	// ErrClosed after a close frame, *TooLargeError for a message over the
	// limit, and other errors when the connection broke. After any error the
	// connection reads nothing more. Only one goroutine may call it.
	ReadMessage() (*Message, error)

	// Open appends room for the head of a frame to b; the message's text is
	// appended behind it.
	Open(b []byte) []byte

	// Seal turns the message that was appended to b since Open, whose room
	// begins at start, into its wire form, and returns the extended buffer.
	Seal(b []byte, start int) []byte

	// WriteFrames sends sealed messages. progress is called after each part
	// that the system took. Only one goroutine may call it at a time.
	WriteFrames(frames []byte, progress func()) error

	// Fragment sends one part of a message that is too large to be built in
	// memory: parts in order, the first marked first, the last marked last.
	// The first FragmentRoom bytes of part are room for the frame's head and
	// no text.
	// It may be used only when nobody else is in WriteFrames.
	Fragment(part []byte, first, last bool, progress func()) error

	// Close ends the connection, telling the peer code and reason where the
	// transport can, and waits a bounded time for the peer to take them. It
	// may be called at any time, from any goroutine, more than once; a
	// ReadMessage or write that blocks returns.
	Close(code int, reason string) error

	// Abort ends the connection at once.
	Abort() error

	// Peer describes the other end for logs and error texts.
	Peer() string
}

// Pinger is a Conn that can probe its peer.
type Pinger interface {
	// AppendPing appends a probe to b, which WriteFrames then sends.
	AppendPing(b []byte) []byte
	// AppendPongs appends the answers that are owed to the peer's probes.
	AppendPongs(b []byte) []byte
	// OnPing registers what to call, from ReadMessage, when the peer's probe
	// came and an answer is owed. It must be called before ReadMessage.
	OnPing(func())
	// Heard counts the messages, probes and answers that came from the peer.
	Heard() uint64
}

// Suspender is a Conn that outlives the way to its peer for a while.
type Suspender interface {
	// Suspended reports whether the way is lost and the peer has not been heard
	// since: what it has to itself may be given to who can be heard. It may be
	// called at any time, from any goroutine.
	Suspended() bool
}

// Authenticated is a Conn whose peer has proved who it is.
type Authenticated interface {
	// Principal names who the peer is: whoever connects with the same
	// credentials again has the same name.
	Principal() string
}
