package rendezvous

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/wire/wsframe"
)

var (
	// errSilent says that nothing was heard of a peer for too long.
	errSilent = errors.New("the peer gives no sign of life")
	// errText says that a message is text.
	errText = fmt.Errorf("%w: it is text", errFrame)
)

// socket is a websocket of either end. Frames are read by one goroutine and
// written by one. An idle one holds no buffers but the library's.
type socket struct {
	ws          *websocket.Conn
	ping, write time.Duration // see Options
	out         []byte        // the writer's: what is about to be written; nil: nothing
	pongs       wsframe.Pongs

	mu    sync.Mutex
	ended bool
}

func newSocket(ws *websocket.Conn, ping, write time.Duration) *socket {
	s := &socket{ws: ws, ping: ping, write: write, pongs: make(wsframe.Pongs, pongQueue)}
	ws.SetReadLimit(MaxFrame)
	ws.SetPongHandler(func(string) error { return s.heard() })
	ws.SetPingHandler(func(data string) error {
		// The writer answers: a write here would change the deadline of its own,
		// which might be under way.
		s.pongs.Add(data)
		return s.heard()
	})
	ws.SetCloseHandler(func(int, string) error { return nil })
	return s
}

// heard notes a sign of life.
func (s *socket) heard() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return net.ErrClosed
	}
	return s.ws.SetReadDeadline(time.Now().Add(silence(s.ping)))
}

// message is a message that was received: its text, and a function that returns the
// memory of the text to the pool. If that is not called, the garbage collector frees it.
type message struct {
	text   []byte
	binary bool
	free   func()
}

// read returns the next message. The error is errSilent for a dead peer.
func (s *socket) read() (message, error) {
	if err := s.heard(); err != nil {
		return message{}, err
	}
	kind, r, err := s.ws.NextReader()
	if err != nil {
		return message{}, s.readError(err)
	}
	buffer := readBuffers.Get().(*bytes.Buffer)
	buffer.Reset()
	if _, err := buffer.ReadFrom(r); err != nil {
		return message{}, s.readError(err)
	}
	m := message{text: buffer.Bytes(), binary: kind == websocket.BinaryMessage, free: func() {}}
	// On its way it counts as what it is, and must not hold much more.
	switch n := len(m.text); {
	case buffer.Cap() > keepBuffer:
	case n >= largeFrame:
		m.free = func() { readBuffers.Put(buffer) }
	case n >= mediumFrame:
		medium := mediumBuffers.Get().(*[]byte)
		m.text = append((*medium)[:0], m.text...)
		m.free = func() { mediumBuffers.Put(medium) }
		readBuffers.Put(buffer)
	default:
		m.text = bytes.Clone(m.text)
		readBuffers.Put(buffer)
	}
	return m, nil
}

// readBuffers hold frames while they arrive, and large ones on their way.
var readBuffers = sync.Pool{New: func() any { return bytes.NewBuffer(make([]byte, 0, keepBuffer)) }}

// mediumBuffers hold medium frames on their way.
var mediumBuffers = sync.Pool{New: func() any { b := make([]byte, 0, largeFrame); return &b }}

// writeBuffers hold what is being written.
var writeBuffers = sync.Pool{New: func() any { b := make([]byte, 0, writeBytes+keepBuffer); return &b }}

func (s *socket) readError(err error) error {
	var timeout net.Error
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("%w for %v", errSilent, silence(s.ping))
	}
	return err
}

// send writes a frame, a small one at the latest with the next flush. The frame
// is not kept. The error is as that of flush.
func (s *socket) send(frame []byte) error {
	if s.out == nil {
		s.out = *writeBuffers.Get().(*[]byte)
	}
	// The library may write a close frame meanwhile, so that what is written
	// must be whole; of several buffers only TCP makes one write.
	if _, tcp := s.ws.NetConn().(*net.TCPConn); tcp && len(frame) >= largeFrame {
		s.out = wsframe.AppendHead(s.out, wsframe.Binary, len(frame))
		return s.writeOut(frame)
	}
	s.out = wsframe.Append(s.out, wsframe.Binary, frame)
	if len(s.out) < writeBytes {
		return nil
	}
	return s.flush()
}

// flush writes what has been sent, or fails when the peer does not take it in
// time.
func (s *socket) flush() error {
	if s.out == nil {
		return nil
	}
	return s.writeOut(nil)
}

// writeOut writes what has gathered, and more behind it, in one system call.
func (s *socket) writeOut(more []byte) error {
	conn := s.ws.NetConn()
	err := s.beginWrite()
	switch {
	case err != nil:
	case more == nil:
		_, err = conn.Write(s.out)
	default:
		_, err = (&net.Buffers{s.out, more}).WriteTo(conn)
	}
	if buffer := s.out[:0]; cap(buffer) <= writeBytes+keepBuffer {
		writeBuffers.Put(&buffer)
	}
	s.out = nil
	return err
}

// beginWrite sets the time for a write, unless interrupt has.
func (s *socket) beginWrite() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	return s.ws.NetConn().SetWriteDeadline(time.Now().Add(s.write))
}

// control writes a control frame, and what has been sent before.
func (s *socket) control(code wsframe.Opcode, data string) error {
	if s.out == nil {
		s.out = *writeBuffers.Get().(*[]byte)
	}
	s.out = wsframe.Append(s.out, code, []byte(data))
	return s.flush()
}

// closing is why a socket is closed by the service.
type closing struct {
	code   int
	reason string
}

func (c *closing) Error() string { return c.reason }

var (
	closeShutdown     = &closing{websocket.CloseGoingAway, "the service is shutting down"}
	closeReplaced     = &closing{websocket.ClosePolicyViolation, "a newer connection has taken its place"}
	closeExecutorGone = &closing{websocket.CloseServiceRestart, "the executor is not connected"}
	closeBusFails     = &closing{websocket.CloseServiceRestart, "the service cannot route frames"}
	closeTooLarge     = &closing{websocket.CloseMessageTooBig, "a frame is too large"}
	closeFailures     = &closing{websocket.ClosePolicyViolation, "too many handshakes of this connection failed"}
	closeSlow         = &closing{websocket.CloseServiceRestart, "what the executor sends is read too slowly, and others wait"}
	closeRevoked      = &closing{websocket.ClosePolicyViolation, "the token is not valid any more"}
)

// socketEnd is what one end of the relay does with its socket.
type socketEnd interface {
	// receive takes a frame that has come, in m. It may wait until ctx ends.
	receive(ctx context.Context, h header, m message) error
	// handle takes a message of the mailbox.
	handle(m Message) error
	// check says why the peer may not stay.
	check() error
	// drop counts a message that is no frame. It may wait until ctx ends: what
	// takes time to look at is not for nothing.
	drop(ctx context.Context, why error) error
}

// run serves the socket until it breaks, e or the mailbox refuses to go on, or
// ctx ends; it tells the peer, closes the socket and returns why.
func (s *socket) run(ctx context.Context, box *Mailbox, e socketEnd) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	interrupted := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(interrupted)
		s.interrupt()
	})
	var reading sync.WaitGroup
	reading.Go(func() { cancel(s.routineRead(ctx, e)) })
	cancel(s.routineWrite(ctx, box, e))
	reading.Wait()
	<-interrupted
	why := context.Cause(ctx)
	s.end(why)
	return why
}

// interrupt ends a read, and a write that is stuck.
func (s *socket) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	_ = s.ws.NetConn().SetReadDeadline(time.Now())
	_ = s.ws.NetConn().SetWriteDeadline(time.Now().Add(closeTime))
}

// end tells the peer why the service closes the socket, if it does, and closes
// it. For a moment it reads what still comes: unread data would turn into a
// reset, which can overtake what is told.
func (s *socket) end(why error) {
	defer s.ws.Close()
	var c *closing
	switch {
	case errors.As(why, &c):
	case errors.Is(why, ErrReplaced):
		c = closeReplaced
	case errors.Is(why, websocket.ErrReadLimit):
		c = closeTooLarge
	default:
		return
	}
	until := time.Now().Add(closeTime)
	// The library has told that a frame was too large itself; then this fails.
	_ = s.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(c.code, c.reason), until)
	raw := s.ws.NetConn()
	_ = raw.SetReadDeadline(until)
	_, _ = io.CopyN(io.Discard, raw, lingerBytes)
}

// routineRead hands over the frames that come.
func (s *socket) routineRead(ctx context.Context, e socketEnd) error {
	for {
		m, err := s.read()
		if err != nil {
			return err
		}
		var h header
		bad := errText
		if m.binary {
			h, bad = peek(m.text)
		}
		if bad != nil {
			m.free()
			err = e.drop(ctx, bad)
		} else {
			err = e.receive(ctx, h, m)
		}
		if err != nil {
			return err
		}
	}
}

// always is ready.
var always = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// routineWrite handles the messages of the mailbox. Meanwhile it asks the peer
// for signs of life, and gives them.
func (s *socket) routineWrite(ctx context.Context, box *Mailbox, e socketEnd) error {
	ticker := time.NewTicker(s.ping)
	defer ticker.Stop()
	// Messages that were queued before the end are still sent. An error is no concern
	// here: the websocket is being closed.
	defer func() { _ = s.flush() }()
	for {
		m, ok, err := box.Take()
		if err != nil {
			return err
		}
		next := box.Ready()
		if ok {
			err = e.handle(m)
			next = always
		} else {
			err = s.flush()
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			if err := e.check(); err != nil {
				return err
			}
			if err := s.control(wsframe.Ping, ""); err != nil {
				return err
			}
		case data := <-s.pongs:
			if err := s.control(wsframe.Pong, data); err != nil {
				return err
			}
		case <-next:
		}
	}
}
