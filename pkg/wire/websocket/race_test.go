package websocket

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"
)

// dialed returns both ends of a websocket over TCP.
func dialed(t *testing.T, o Options) (server, client *Conn) {
	t.Helper()
	accepted := make(chan *Conn, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := Upgrade(w, r, o, nil)
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}))
	t.Cleanup(s.Close)
	client, err := Dial(t.Context(), "ws"+strings.TrimPrefix(s.URL, "http"), DialOptions{
		Options: o, Timeout: patience, Buffer: 4 << 10, Refused: func(*http.Response) error { return errors.New("refused") },
	})
	if err != nil {
		t.Fatal(err)
	}
	return <-accepted, client
}

// TestBothEndsAtOnce: both ends write, read and ping each other as fast as they can, and each
// message arrives whole and in order. Then one end closes the connection: no goroutine may be
// left, and Close must not deadlock.
func TestBothEndsAtOnce(t *testing.T) {
	const messages = 3000
	server, client := dialed(t, Options{Ping: time.Millisecond * 200, WriteTimeout: patience})
	var running sync.WaitGroup
	for _, c := range []*Conn{server, client} {
		running.Go(func() {
			for i := range uint32(messages) {
				size := int(i*7919) % 90_000
				if i%10 > 0 {
					size %= 300
				}
				message := binary.BigEndian.AppendUint32(nil, i)
				if err := c.Add(Binary, append(message, make([]byte, size)...)); err != nil {
					t.Error(err)
					return
				}
				c.probe()
			}
			if err := c.Flush(); err != nil {
				t.Error(err)
			}
		})
		running.Go(func() {
			var b bytes.Buffer
			for i := range uint32(messages) {
				b.Reset()
				if _, err := c.ReadTo(&b); err != nil || binary.BigEndian.Uint32(b.Bytes()) != i {
					t.Errorf("message %d: %v", i, err)
					return
				}
			}
		})
	}
	running.Wait()
	running.Go(func() {
		if _, err := client.ReadMessage(); !errors.Is(err, ErrClosed) {
			t.Errorf("got error %v, want %v", err, ErrClosed)
		}
		_ = client.Close(CloseNormal, "")
	})
	_ = server.Close(CloseNormal, "")
	running.Wait()
}

// TestEndsAtAnyTime: Close and Abort may be called at any time, from any goroutine.
func TestEndsAtAnyTime(t *testing.T) {
	for i := range 30 {
		server, client := dialed(t, Options{Ping: time.Second})
		var running sync.WaitGroup
		running.Go(func() {
			for server.WriteText(make([]byte, 10_000)) == nil {
			}
		})
		running.Go(func() {
			for {
				if _, err := server.ReadMessage(); err != nil {
					return
				}
			}
		})
		running.Go(func() {
			for n := 0; ; n++ {
				if _, err := client.ReadMessage(); err != nil {
					_ = client.Abort() // the server waits until the client has closed
					return
				}
				client.probe()
				if n == i*3 {
					running.Go(func() { _ = server.Close(CloseGoingAway, "") })
					running.Go(server.Interrupt)
					if i%2 == 0 {
						running.Go(func() { _ = server.Abort() })
					}
				}
			}
		})
		running.Wait()
	}
}

// heldConn is a connection that only supplies the data of the peer.
type heldConn struct {
	net.Conn
	in *bytes.Reader
}

func (c heldConn) Read(b []byte) (int, error)       { return c.in.Read(b) }
func (c heldConn) Write(b []byte) (int, error)      { return len(b), nil }
func (c heldConn) Close() error                     { return nil }
func (c heldConn) SetDeadline(time.Time) error      { return nil }
func (c heldConn) SetReadDeadline(time.Time) error  { return nil }
func (c heldConn) SetWriteDeadline(time.Time) error { return nil }
func (c heldConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// FuzzReadMessage: a peer sends any bytes. No message exceeds the limit, and the connection
// ends.
func FuzzReadMessage(f *testing.F) {
	const limit = 1000
	f.Add(appendFrame(nil, firstByte(Text, true), true, []byte("{}")), true)
	f.Add(appendFrame(nil, firstByte(Binary, false), true, make([]byte, limit)), false)
	f.Add(appendFrame(appendFrame(nil, firstByte(opPing, true), true, []byte("x")), firstByte(Text, false), true, make([]byte, 600)), true)
	f.Add(closeFrame(CloseNormal, "bye", true), true)
	f.Add([]byte{0x82, 0xff, 0x7f, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0}, false)
	const request = "GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-Websocket-Version: 13\r\nSec-Websocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
	f.Fuzz(func(t *testing.T, sent []byte, explain bool) {
		conn := heldConn{in: bytes.NewReader(sent)}
		c, err := accept(bufio.NewReader(strings.NewReader(request)), conn, Options{Limit: limit, ExplainLimit: explain})
		if err != nil {
			t.Fatal(err)
		}
		for total := 0; ; {
			m, err := c.ReadMessage()
			if err != nil {
				break
			}
			if total += len(m.Bytes()); len(m.Bytes()) > limit || total > len(sent) {
				t.Errorf("a message of %d bytes, %d in all, from %d", len(m.Bytes()), total, len(sent))
			}
			m.Release()
		}
		_ = c.Close(CloseProtocolError, "")
	})
}

// FuzzSeal makes the library read the output of each way to send a text.
func FuzzSeal(f *testing.F) {
	f.Add([]byte("x"), []byte("y"), 1)
	f.Add(make([]byte, 125), make([]byte, 126), 100)
	f.Add(make([]byte, 0xFFFF), make([]byte, 0x10000), 3)
	client, server := libraryPair(f)
	f.Fuzz(func(t *testing.T, a, b []byte, cut int) {
		cut = max(0, min(cut, len(a)))
		for _, end := range []struct {
			from, to *gorilla.Conn
			c        *Conn
		}{{server, client, &Conn{}}, {client, server, &Conn{client: true}}} {
			c := end.c
			c.net, c.turn = end.from.NetConn(), make(chan struct{}, 1)
			batch := c.Seal(append(c.Open(nil), a...), 0)
			batch = c.Seal(append(c.Open(batch), b...), len(batch))
			room := strings.Repeat(" ", FragmentRoom)
			written := make(chan error, 1)
			go func() {
				written <- errors.Join(c.WriteFrames(batch), c.WriteText(a),
					c.Fragment(append([]byte(room), a[:cut]...), true, false), c.Fragment(append([]byte(room), a[cut:]...), false, true))
			}()
			for i, want := range [][]byte{a, b, a, a} {
				kind, got, err := end.to.ReadMessage()
				if err != nil || kind != gorilla.TextMessage || !bytes.Equal(got, want) {
					t.Fatalf("message %d: %d bytes of type %d, want %d: %v", i, len(got), kind, len(want), err)
				}
			}
			if err := <-written; err != nil {
				t.Fatal(err)
			}
		}
	})
}
