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
	// Limit is the most bytes that an incoming message may have; 0:
	// DefaultMaxMessage.
	Limit int
	// ExplainLimit lets the caller close the connection with its own reason
	// after a *TooLargeError. The error then comes when more than Limit bytes
	// of a message have arrived. Without ExplainLimit it comes as soon as a
	// frame announces such a length, and the peer has already been sent the
	// code CloseTooLarge.
	ExplainLimit bool
	// ReadSize is how large, in bytes, most large messages are. ReadMessage reads
	// into a buffer of that size and needs others only for larger messages.
	ReadSize int
	// Ping is how often the peer is pinged. A peer that has given no sign of
	// life for two and a half times as long is lost: ReadMessage returns
	// ErrSilent. 0: the peer is not pinged and may be silent.
	Ping time.Duration
	// CountWrites counts each part of a write that the system accepts as a sign
	// of life. A peer that reads a large message slowly answers no ping before
	// the end of the message.
	CountWrites bool
	// WriteTimeout bounds each write; 0: it is not bounded.
	WriteTimeout time.Duration
	// Memory bounds what messages hold; nil: nothing but Limit does.
	Memory Memory
}

// Memory counts what incoming messages hold of the program's memory beyond a small buffer for each. Its methods
// may be called at the same time.
type Memory interface {
	// Take waits until n more bytes may be held; if n exceeds the limit, until the whole limit is free. It returns
	// how many bytes it has taken. ReadMessage returns its error.
	Take(n int) (taken int, err error)
	// Give gives back n bytes that were taken, when the message is released.
	Give(n int)
}

// Conn is one end of a websocket connection. Messages are read by
// gorilla/websocket. This type writes frames itself, so that several go out in
// one system call and a payload is copied only once. Each write contains whole
// frames. The lock of the network connection therefore keeps them separate from
// the close frame that the library writes after a protocol error.
//
// One goroutine may read, and another one write. Pings and pongs are written
// between their writes by a goroutine that runs only while there are any. Close
// and Abort wait for it.
//
// States: open; ended (deadlines are no longer extended, and no ping or pong is
// sent); closed.
type Conn struct {
	ws     *gorilla.Conn
	net    net.Conn
	client bool // the dialling end, whose frames are masked
	o      Options
	vector bool // net can write several buffers in one system call

	// turn is a lock, held by the goroutine that writes to net. Its capacity is 1.
	turn chan struct{}
	// out contains the frames that Add has collected; nil: none. It belongs to the writer.
	out []byte

	made  time.Time
	moved atomic.Int64 // when the read deadline was extended last, as time since made

	control sync.WaitGroup // of routineControl

	mu       sync.Mutex
	pong     []byte // the data of the newest unanswered ping; nil: none
	ping     bool   // a ping is due
	writing  bool   // routineControl runs
	pinger   *time.Timer
	ended    bool
	closed   bool
	told     bool  // a close frame was sent
	writeErr error // the reason why no more can be written
}

// newConn returns an end of a connection that the library has made.
func newConn(ws *gorilla.Conn, client bool, o Options) *Conn {
	if o.Limit <= 0 {
		o.Limit = DefaultMaxMessage
	}
	c := &Conn{ws: ws, net: ws.NetConn(), client: client, o: o, turn: make(chan struct{}, 1), made: time.Now()}
	if w, ok := c.net.(*waitingConn); ok {
		c.net = w.Conn // it waits no more, and adds nothing to the connection
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

// readError translates an error of the library into one for callers.
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
		return c.writeErr // it has closed the connection
	case c.ended:
		return net.ErrClosed
	case errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%w for %v", ErrSilent, c.silence())
	}
	return err
}

// silence is how long the peer may send no sign of life: two pings without an
// answer, and time for the answer to the second.
func (c *Conn) silence() time.Duration { return 2*c.o.Ping + c.o.Ping/2 }

// alive records a sign of life. It extends the read deadline in steps, because
// that costs more than reading a small message.
func (c *Conn) alive() {
	if c.o.Ping == 0 {
		return
	}
	now := time.Since(c.made)
	if now-time.Duration(c.moved.Load()) >= c.o.Ping/deadlineSteps {
		c.putOff(now)
	}
}

// putOff moves the read deadline. It allows for the step by which the last sign
// of life may be newer than now.
func (c *Conn) putOff(now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.moved.Store(int64(now))
	_ = c.net.SetReadDeadline(c.made.Add(now + c.silence() + c.o.Ping/deadlineSteps))
}
