// Package tunnel carries byte streams in messages: each tunnel has a stream of bytes in
// each direction, with a window that bounds the bytes in flight. The two directions end
// separately.
//
// Stream is one end of a tunnel. Its user uses it like a connection. The reader of the
// underlying connection passes the peer's messages to the Stream, which never blocks the
// reader. The Stream sends its messages through a Carrier. All bytes are numbered, and an end
// stores the bytes that the peer has not acknowledged, so that a tunnel continues over another
// Carrier after the first one is lost.
//
// The rules are in docs/spec/wire.md §11.
package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Carrier sends the messages of a tunnel to the peer. Its methods may block until there
// is space for a message. An error means that the connection is lost or ctx has ended.
type Carrier interface {
	// Data sends bytes from an offset on. end means that they are the last bytes.
	Data(ctx context.Context, id, offset uint64, data []byte, end bool) error
	// Ack acknowledges the peer's bytes up to a position; the end of the stream counts as
	// one more byte.
	Ack(ctx context.Context, id, position uint64) error
	// Close ends both directions; an empty reason means a normal end.
	Close(ctx context.Context, id uint64, reason string) error
}

// ClosedError is the error of a tunnel that its peer has closed, or that has ended with its
// session.
type ClosedError struct{ Reason string }

func (e *ClosedError) Error() string {
	if e.Reason == "" {
		return "the tunnel was closed by the other end"
	}
	return "the tunnel was closed: " + e.Reason
}

// Violation is the error for a message with which the peer violates the protocol.
type Violation struct{ text string }

func (e *Violation) Error() string { return e.text }

// Stream is one end of a tunnel. Its methods may be called from any goroutine. Read,
// Write, CloseWrite, Close, Abort and the deadlines are for its user, as with net.Conn;
// Data, Ack, PeerClosed, Resume and Fail for the connection that carries it.
//
// States: open; closing (Close or Abort was called, and the peer has not received everything
// yet); done (done is called once). A stream is done in one of these cases: both directions
// have ended and were acknowledged; the peer has closed the stream; the data sent before Close
// was acknowledged; the message of Abort was sent; Fail was called.
type Stream struct {
	id     uint64
	ctx    context.Context // its end ends all waits for a carrier
	done   func(*Stream)
	window uint64 // how many unread bytes the peer may have sent

	sending sync.Mutex // held while data and the close are sent, so that they keep their order

	mu      sync.Mutex
	wait    chan struct{} // closed when the state has changed; nil: no goroutine waits
	carrier Carrier       // nil: there is no connection
	over    bool          // done was called
	err     error         // set by Fail

	// Positions of the bytes that this end sends: acked <= next <= written.
	peerWindow           uint64
	kept                 [][]byte // the bytes from keptFrom, which is at most acked
	keptFrom             uint64
	acked, next, written uint64
	ended                bool // no bytes follow written
	endSent, endAcked    bool
	closing              bool // Close or Abort was called
	aborted              bool
	reason               string // reason of Abort
	closeSent            bool

	// Positions of the bytes that this end receives: told (acknowledged) <= consumed <=
	// received.
	queue                    [][]byte // the bytes from consumed to received
	received, consumed, told uint64
	peerEnded, endConsumed   bool
	peerClosed               bool
	peerReason               string

	readDeadline, writeDeadline deadline
	onEnd                       func() // set by Join; called when the peer has closed the tunnel, or Fail was called
}

// New returns an open stream. peerWindow is how many unread bytes the peer accepts.
// done is called once, without locks, when the stream needs no more messages. ctx ends
// with the session of the tunnel.
func New(ctx context.Context, id uint64, c Carrier, peerWindow uint64, done func(*Stream)) *Stream {
	return &Stream{id: id, ctx: ctx, carrier: c, window: Window, peerWindow: peerWindow, done: done}
}

// ID returns the number of the tunnel.
func (s *Stream) ID() uint64 { return s.id }

// SetWindow sets how many unread bytes this end accepts, instead of Window. It must be called
// before the peer knows the stream.
func (s *Stream) SetWindow(window uint64) { s.window = window }

// Windows returns how many unread bytes this end and the peer accept: upper bounds for the
// memory of the stream in the two directions.
func (s *Stream) Windows() (in, out uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.window, s.peerWindow
}

// Open sets how many unread bytes the peer accepts. It is for a stream that New has made with
// the number 0, because the peer had not sent its number yet.
func (s *Stream) Open(peerWindow uint64) {
	s.mu.Lock()
	s.peerWindow = peerWindow
	s.changed()
	s.mu.Unlock()
}

// changed wakes all waiting goroutines. The caller holds mu.
func (s *Stream) changed() {
	if s.wait != nil {
		close(s.wait)
		s.wait = nil
	}
}

// pause waits for a change or the deadline. It is called with mu held and returns with
// it held.
func (s *Stream) pause(d *deadline) {
	if s.wait == nil {
		s.wait = make(chan struct{})
	}
	changed, passed := s.wait, d.channel()
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
	case <-passed:
	}
}

// finish reports whether the stream has just become done. The caller holds mu. If finish
// returns true, the caller must call s.done without mu.
func (s *Stream) finish() bool {
	complete := s.err != nil || s.peerClosed || s.closing && s.endAcked || s.aborted && s.closeSent || s.endAcked && s.endConsumed
	if s.over || !complete {
		return false
	}
	s.over = true
	return true
}

// Read reads bytes of the peer. After the peer has ended its direction, it returns io.EOF. If
// the tunnel was closed before that, it returns a *ClosedError.
func (s *Stream) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	s.mu.Lock()
	piece, err := s.front()
	n := 0
	if err == nil {
		n = copy(b, piece)
		s.consume(n)
	}
	s.unlockAndTell()
	return n, err
}

// WriteTo writes the bytes of the peer to w until the peer ends its direction. Bytes that were
// not written to w are not acknowledged.
func (s *Stream) WriteTo(w io.Writer) (total int64, err error) {
	for {
		s.mu.Lock()
		piece, err := s.front()
		if err != nil {
			s.unlockAndTell()
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return total, err
		}
		s.mu.Unlock()
		n, err := w.Write(piece)
		total += int64(n)
		s.mu.Lock()
		if len(s.queue) > 0 { // Close drops unread data
			s.consume(n)
		}
		s.unlockAndTell()
		if err != nil {
			return total, err
		}
	}
}

// front waits for bytes and returns the next ones. The caller holds mu.
func (s *Stream) front() ([]byte, error) {
	for {
		switch {
		case s.closing:
			return nil, net.ErrClosed
		case s.readDeadline.passed():
			return nil, errTimeout
		case len(s.queue) > 0:
			return s.queue[0], nil
		case s.peerEnded:
			s.endConsumed = true
			return nil, io.EOF
		case s.peerClosed:
			return nil, &ClosedError{s.peerReason}
		case s.err != nil:
			return nil, s.err
		}
		s.pause(&s.readDeadline)
	}
}

// consume counts the first n bytes of the queue as read. The caller holds mu.
func (s *Stream) consume(n int) {
	s.consumed += uint64(n)
	if s.queue[0] = s.queue[0][n:]; len(s.queue[0]) == 0 {
		s.queue[0] = nil
		s.queue = s.queue[1:]
	}
}

// position returns the position up to which the bytes of the peer were read. The caller holds
// mu.
func (s *Stream) position() uint64 {
	if s.endConsumed {
		return s.consumed + 1
	}
	return s.consumed
}

// unlockAndTell releases mu. If enough bytes were read, it acknowledges them.
func (s *Stream) unlockAndTell() {
	position := s.position()
	c := s.carrier
	tell := c != nil && (position-s.told >= min(ackEvery, max(s.window/4, 1)) || s.endConsumed && position > s.told)
	if tell {
		s.told = position
	}
	s.mu.Unlock()
	if !tell {
		return
	}
	// If an acknowledgement is lost with its connection, Resume repeats it.
	_ = c.Ack(s.ctx, s.id, position)
	s.mu.Lock()
	last := s.finish()
	s.mu.Unlock()
	if last {
		s.done(s)
	}
}

// Data takes ownership of data, which the peer has sent. The error is a *Violation.
func (s *Stream) Data(offset uint64, data []byte, end bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing || s.over || s.err != nil:
		return nil // no caller will read it
	case offset > s.received || s.peerEnded && offset+uint64(len(data)) > s.received:
		return &Violation{"bytes of the tunnel are missing"}
	case offset+uint64(len(data)) <= s.received:
		data = nil // the data has already arrived
	default:
		data = data[s.received-offset:]
	}
	if s.received-s.consumed+uint64(len(data)) > s.window {
		return &Violation{"more bytes were sent than the window allows"}
	}
	s.received += uint64(len(data))
	if last := len(s.queue) - 1; last >= 0 && len(s.queue[last])+len(data) <= mergeBytes {
		s.queue[last] = append(s.queue[last], data...)
	} else if len(data) > 0 {
		s.queue = append(s.queue, data)
	}
	s.peerEnded = s.peerEnded || end
	s.changed()
	return nil
}

// PeerClosed handles the close of the peer. Bytes that it sent before can still be read.
func (s *Stream) PeerClosed(reason string) {
	s.mu.Lock()
	s.peerClosed, s.peerReason = true, reason
	s.kept = nil
	s.endedByOthers()
}

// endedByOthers ends all waiting calls with the error, and releases mu.
func (s *Stream) endedByOthers() {
	last, onEnd := s.finish(), s.onEnd
	s.changed()
	s.mu.Unlock()
	if onEnd != nil {
		onEnd()
	}
	if last {
		s.done(s)
	}
}

// whenEnded calls f when the peer has closed the tunnel or Fail was called. If that has already
// happened, it calls f at once.
func (s *Stream) whenEnded(f func()) {
	s.mu.Lock()
	s.onEnd = f
	ended := s.peerClosed || s.err != nil
	s.mu.Unlock()
	if ended {
		f()
	}
}

// Closed returns whether the peer has closed the tunnel, and its reason.
func (s *Stream) Closed() (reason string, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peerReason, s.peerClosed
}

// Received returns the position up to which the peer's bytes have arrived; the end of the
// stream counts as one more byte. The peer needs it for its Resume.
func (s *Stream) Received() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peerEnded {
		return s.received + 1
	}
	return s.received
}

// Fail ends the stream without sending a message.
func (s *Stream) Fail(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.carrier, s.kept = nil, nil
	s.endedByOthers()
}

// LocalAddr returns an address that only says that this is a tunnel.
func (s *Stream) LocalAddr() net.Addr { return Addr("tunnel") }

// RemoteAddr is LocalAddr.
func (s *Stream) RemoteAddr() net.Addr { return Addr("tunnel") }

// SetDeadline sets both deadlines.
func (s *Stream) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// SetReadDeadline sets when Read fails; the zero time means never.
func (s *Stream) SetReadDeadline(t time.Time) error { return s.setDeadline(&s.readDeadline, t) }

// SetWriteDeadline sets when Write fails; the zero time means never.
func (s *Stream) SetWriteDeadline(t time.Time) error { return s.setDeadline(&s.writeDeadline, t) }

func (s *Stream) setDeadline(d *deadline, t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return net.ErrClosed
	}
	d.set(t)
	s.changed()
	return nil
}

// Addr is the address of an end of a tunnel.
type Addr string

// Network returns "tunnel".
func (Addr) Network() string { return "tunnel" }

func (a Addr) String() string { return string(a) }
