package websocket

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	gorilla "github.com/gorilla/websocket"
)

// Options configure a connection, at either end.
type Options struct {
	// Limit is the largest size of an incoming message in bytes; 0: DefaultMaxMessage.
	Limit int
	// ExplainLimit lets the caller close the connection with a reason of its own after a
	// *TooLargeError. ReadMessage then returns the error when more than Limit bytes of a
	// message have arrived. Without ExplainLimit, ReadMessage returns it when the head of a
	// frame announces such a size, after it has sent the code CloseTooLarge to the peer.
	ExplainLimit bool
	// ReadSize is the usual size of a large message in bytes. ReadMessage reads into a buffer
	// of that size and needs further buffers only for larger messages.
	ReadSize int
	// Ping is the interval of pings to the peer. If the peer gives no sign of life for two and
	// a half intervals, it is lost: ReadMessage returns ErrSilent. 0: the peer is not pinged
	// and may be silent.
	Ping time.Duration
	// CountWrites makes each part of a write that the system accepts count as a sign of life.
	// It is for large messages: a peer that reads one slowly answers no ping before the end of
	// the message.
	CountWrites bool
	// WriteTimeout bounds each write; 0: no timeout.
	WriteTimeout time.Duration
	// Memory bounds the memory of incoming messages; nil: only Limit bounds it.
	Memory Memory
}

// Memory counts the memory of incoming messages, without a small buffer for each. Its methods
// may be called from any goroutine.
type Memory interface {
	// Take waits until n more bytes may be used. If n exceeds the limit, it waits until the
	// whole limit is free. It returns how many bytes it has taken. If it returns an error,
	// ReadMessage returns that error.
	Take(n int) (taken int, err error)
	// Give gives back n bytes that were taken. It is called when the message is released.
	Give(n int)
}

// Conn is one end of a websocket connection. Messages are read by gorilla/websocket. This type
// writes frames itself, so that one system call sends several frames and a payload is copied
// only once. The library writes a close frame after a protocol error. That frame cannot end up
// inside another one, because each write of this type contains whole frames, and the network
// connection has a lock for writes.
//
// One goroutine may read, and another one write. Another goroutine writes pings and pongs
// between these writes, and runs only while some are pending. Close and Abort wait for it.
//
// States: open; ended (deadlines are no longer extended, and no ping or pong is
// sent); closed.
type Conn struct {
	ws     *gorilla.Conn
	net    net.Conn
	client bool // this is the dialing end, whose frames are masked
	o      Options
	vector bool // net can write several buffers in one system call

	// turn is a lock. The goroutine that writes to net holds it. Its capacity is 1.
	turn chan struct{}
	// out contains the frames that Add has collected; nil: none. It belongs to the writer.
	out []byte

	made  time.Time
	moved atomic.Int64 // when the read deadline was last extended, as the time since made

	control sync.WaitGroup // counts routineControl

	mu       sync.Mutex
	pong     []byte // the data of the newest unanswered ping; nil: none
	ping     bool   // a ping is due
	writing  bool   // routineControl runs
	pinger   *time.Timer
	ended    bool
	closed   bool
	told     bool  // a close frame was sent
	writeErr error // the reason why writes fail
}

// newConn makes a Conn from a connection of the library.
func newConn(ws *gorilla.Conn, client bool, o Options) *Conn {
	if o.Limit <= 0 {
		o.Limit = DefaultMaxMessage
	}
	c := &Conn{ws: ws, net: ws.NetConn(), client: client, o: o, turn: make(chan struct{}, 1), made: time.Now()}
	if w, ok := c.net.(*waitingConn); ok {
		c.net = w.Conn // from now on the wrapper does nothing
	}
	_, tcp := c.net.(*net.TCPConn)
	c.vector = tcp && !client
	if !o.ExplainLimit {
		ws.SetReadLimit(int64(o.Limit))
	}
	ws.SetPingHandler(c.receivePing)
	ws.SetPongHandler(func(string) error { c.alive(); return nil })
	ws.SetCloseHandler(func(int, string) error { return nil })
	if o.Ping > 0 {
		c.putOff(0)
		c.mu.Lock()
		c.pinger = time.AfterFunc(o.Ping, c.probe)
		c.mu.Unlock()
	}
	return c
}

// Peer returns the remote address. Clients of a Unix socket have none.
func (c *Conn) Peer() string {
	if c.net.RemoteAddr().Network() == "unix" {
		return "unix"
	}
	return c.net.RemoteAddr().String()
}

// ReadMessage implements Transport.
func (c *Conn) ReadMessage() (*Message, error) {
	code, r, err := c.next()
	if err != nil {
		return nil, err
	}
	m := newMessage(c.o.ReadSize)
	m.memory = c.o.Memory
	m.Text = code == Text
	if err := m.readAll(r, c.o.Limit); err != nil {
		m.Release()
		return nil, c.readError(err)
	}
	c.alive()
	return m, nil
}

// ReadTo appends the next message to b and returns its type. Its errors are those
// of ReadMessage.
func (c *Conn) ReadTo(b *bytes.Buffer) (Opcode, error) {
	code, r, err := c.next()
	if err != nil {
		return 0, err
	}
	if c.o.ExplainLimit {
		r = io.LimitReader(r, int64(c.o.Limit)+1)
	}
	n, err := b.ReadFrom(r)
	switch {
	case err != nil:
		return 0, c.readError(err)
	case n > int64(c.o.Limit):
		return 0, &TooLargeError{Limit: c.o.Limit}
	}
	c.alive()
	return code, nil
}

// next waits for the next message.
func (c *Conn) next() (Opcode, io.Reader, error) {
	if c.isEnded() {
		return 0, nil, net.ErrClosed
	}
	kind, r, err := c.ws.NextReader()
	if err != nil {
		return 0, nil, c.readError(err)
	}
	return Opcode(kind), r, nil
}

func (c *Conn) isEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// readError converts an error of the library to an error for callers.
func (c *Conn) readError(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var peer *gorilla.CloseError
	var timeout net.Error
	switch {
	case errors.As(err, &peer) && peer.Code != gorilla.CloseAbnormalClosure:
		return &CloseError{Code: peer.Code, Reason: peer.Text}
	case errors.Is(err, gorilla.ErrReadLimit):
		c.told = true
		return &TooLargeError{Limit: c.o.Limit}
	case c.writeErr != nil:
		return c.writeErr // the write error has closed the connection
	case c.ended:
		return net.ErrClosed
	case errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%w for %v", ErrSilent, c.silence())
	}
	return err
}

// silence returns how long the peer may give no sign of life: two intervals for pings without
// an answer, and time for the answer to the second ping.
func (c *Conn) silence() time.Duration { return 2*c.o.Ping + c.o.Ping/2 }

// alive records a sign of life. It extends the read deadline in steps, because an extension
// costs more than reading a small message.
func (c *Conn) alive() {
	if c.o.Ping == 0 {
		return
	}
	now := time.Since(c.made)
	if now-time.Duration(c.moved.Load()) >= c.o.Ping/deadlineSteps {
		c.putOff(now)
	}
}

// putOff extends the read deadline. Because of the steps, the last sign of life may be later
// than now by one step, for which putOff adds time.
func (c *Conn) putOff(now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.moved.Store(int64(now))
	_ = c.net.SetReadDeadline(c.made.Add(now + c.silence() + c.o.Ping/deadlineSteps))
}
