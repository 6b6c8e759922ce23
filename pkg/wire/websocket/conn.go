package websocket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	gorilla "github.com/gorilla/websocket"
)

// Conn is the server's side of a websocket connection. Messages are read
// by gorilla/websocket; frames are written by this type itself, in calls that
// hold whole frames only. The kernel's write lock therefore keeps them apart
// from the control frames that the library writes on a protocol error.
type Conn struct {
	ws    *gorilla.Conn
	net   net.Conn
	limit int

	heard  atomic.Uint64
	onPing func()

	mu     sync.Mutex
	pong   []byte // the data of the latest ping without an answer; nil: none
	closed bool
}

// upgrader accepts any origin because the caller has refused requests that
// carry one (docs/spec/wire.md §1.2), and writes with the HTTP server's
// buffers.
var upgrader = gorilla.Upgrader{
	CheckOrigin: func(*http.Request) bool { return true },
	Error: func(w http.ResponseWriter, _ *http.Request, status int, reason error) {
		http.Error(w, reason.Error(), status)
	},
}

// Upgrade turns an HTTP request into a websocket connection that accepts
// messages of up to limit bytes (0: DefaultMaxMessage). On failure the
// request has been answered. The caller has decided that the client may stay:
// Admit is called for the connection.
func Upgrade(w http.ResponseWriter, r *http.Request, limit int) (*Conn, error) {
	if limit <= 0 {
		limit = DefaultMaxMessage
	}
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil, fmt.Errorf("upgrade to a websocket: %w", err)
	}
	Admit(ws.NetConn())
	c := &Conn{ws: ws, net: ws.NetConn(), limit: limit, onPing: func() {}}
	ws.SetPingHandler(c.takePing)
	ws.SetPongHandler(func(string) error { c.heard.Add(1); return nil })
	ws.SetCloseHandler(func(int, string) error { return nil })
	return c, nil
}

// Peer returns the remote address. The clients of a Unix socket have none.
func (c *Conn) Peer() string {
	if c.net.RemoteAddr().Network() == "unix" {
		return "unix"
	}
	return c.net.RemoteAddr().String()
}

// takePing records a ping. Only the latest is answered, as RFC 6455 5.5.3 allows,
// so a peer that sends pings without reading the answers fills no queue.
func (c *Conn) takePing(data string) error {
	c.heard.Add(1)
	c.mu.Lock()
	c.pong = append(make([]byte, 0, len(data)), data...)
	c.mu.Unlock()
	c.onPing()
	return nil
}

// ReadMessage implements Transport.
func (c *Conn) ReadMessage() (*Message, error) {
	kind, r, err := c.ws.NextReader()
	if err != nil {
		return nil, readError(err)
	}
	m := newMessage()
	m.Text = kind == gorilla.TextMessage
	if err := m.readAll(r, c.limit); err != nil {
		m.Release()
		return nil, readError(err)
	}
	c.heard.Add(1)
	return m, nil
}

func readError(err error) error {
	var closed *gorilla.CloseError
	if errors.As(err, &closed) && closed.Code != gorilla.CloseAbnormalClosure {
		return ErrClosed
	}
	return err
}

// Frame layout of RFC 6455 5.2, for unmasked frames.
const (
	opContinuation = 0x0
	opText         = 0x1
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA
	finBit         = 0x80
	shortHead      = 2
	mediumHead     = 4
	longHead       = 10
)

// Open implements Transport: most messages fit a medium head.
func (c *Conn) Open(b []byte) []byte { return append(b, 0, 0, 0, 0) }

// Seal implements Transport.
func (c *Conn) Seal(b []byte, start int) []byte {
	body := len(b) - start - mediumHead
	if body > maxFrame {
		return sealFragments(b, start)
	}
	if body > 0xFFFF {
		b = append(b, 0, 0, 0, 0, 0, 0)
		copy(b[start+longHead:], b[start+mediumHead:len(b)-6])
		putHead(b[start:], finBit|opText, body, longHead)
		return b
	}
	if body < 126 {
		copy(b[start+shortHead:], b[start+mediumHead:])
		b = b[:len(b)-2]
		putHead(b[start:], finBit|opText, body, shortHead)
		return b
	}
	putHead(b[start:], finBit|opText, body, mediumHead)
	return b
}

// sealFragments is Seal for a message above maxFrame.
func sealFragments(b []byte, start int) []byte {
	text := b[start+mediumHead:]
	out := make([]byte, 0, len(b)+(len(text)/maxFrame+1)*longHead)
	out = append(out, b[:start]...)
	for first := true; len(text) > 0; first = false {
		n := min(len(text), maxFrame)
		out = appendHead(out, first, n == len(text), n)
		out = append(out, text[:n]...)
		text = text[n:]
	}
	return out
}

// putHead writes a frame's head of the given size.
func putHead(b []byte, first byte, body, head int) {
	b[0] = first
	switch head {
	case shortHead:
		b[1] = byte(body)
	case mediumHead:
		b[1] = 126
		binary.BigEndian.PutUint16(b[2:], uint16(body))
	default:
		b[1] = 127
		binary.BigEndian.PutUint64(b[2:], uint64(body))
	}
}

// appendHead appends the head of one fragment of a text message.
func appendHead(b []byte, first, last bool, body int) []byte {
	op := byte(opContinuation)
	if first {
		op = opText
	}
	if last {
		op |= finBit
	}
	size := longHead
	switch {
	case body < 126:
		size = shortHead
	case body <= 0xFFFF:
		size = mediumHead
	}
	at := len(b)
	b = append(b, "          "[:size]...)
	putHead(b[at:], op, body, size)
	return b
}

// WriteFrames implements Transport.
func (c *Conn) WriteFrames(frames []byte, progress func()) error {
	return writeSliced(c.net, frames, progress)
}

// Fragment implements Transport. The frame's head goes right before the text, so
// that one write carries both.
func (c *Conn) Fragment(part []byte, first, last bool, progress func()) error {
	var head [longHead]byte
	h := appendHead(head[:0], first, last, len(part)-FragmentRoom)
	start := FragmentRoom - len(h)
	copy(part[start:], h)
	return writeSliced(c.net, part[start:], progress)
}

func writeSliced(w io.Writer, b []byte, progress func()) error {
	for len(b) > 0 {
		n := min(len(b), writeSlice)
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
		progress()
	}
	return nil
}

// OnPing implements Pinger.
func (c *Conn) OnPing(f func()) { c.onPing = f }

// Heard implements Pinger.
func (c *Conn) Heard() uint64 { return c.heard.Load() }

// AppendPing implements Pinger.
func (c *Conn) AppendPing(b []byte) []byte { return append(b, finBit|opPing, 0) }

// AppendPongs implements Pinger.
func (c *Conn) AppendPongs(b []byte) []byte {
	c.mu.Lock()
	data := c.pong
	c.pong = nil
	c.mu.Unlock()
	if data == nil {
		return b
	}
	return append(append(b, finBit|opPong, byte(len(data))), data...)
}

// Close implements Transport. It must not run while another goroutine is in
// WriteFrames, unless that one is stuck for good.
func (c *Conn) Close(code int, reason string) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()

	if len(reason) > closeReasonLimit {
		reason = strings.ToValidUTF8(reason[:closeReasonLimit], "")
	}
	frame := []byte{finBit | opClose, byte(2 + len(reason)), byte(code >> 8), byte(code)}
	frame = append(frame, reason...)
	_ = c.net.SetWriteDeadline(time.Now().Add(closeWriteTime))
	if _, err := c.net.Write(frame); err == nil {
		c.linger()
	}
	return c.net.Close()
}

// linger closes the sending side and reads on until the peer has closed its own,
// so that the peer receives the close frame and not a reset.
func (c *Conn) linger() {
	half, ok := c.net.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.net.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, c.net, lingerBytes)
}

// Abort implements Transport.
func (c *Conn) Abort() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	return c.net.Close()
}
