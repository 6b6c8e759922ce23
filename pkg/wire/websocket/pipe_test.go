package websocket

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gorilla "github.com/gorilla/websocket"
)

// hijackable is an http.ResponseWriter for one connection, which can be hijacked.
type hijackable struct {
	http.ResponseWriter
	conn net.Conn
	r    *bufio.Reader
}

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(h.r, bufio.NewWriter(h.conn)), nil
}

// accept upgrades a connection whose request comes from in.
func accept(in *bufio.Reader, conn net.Conn, o Options) (*Conn, error) {
	r, err := http.ReadRequest(in)
	if err != nil {
		return nil, err
	}
	return Upgrade(hijackable{conn: conn, r: bufio.NewReader(conn)}, r, o, nil)
}

// ends returns both ends of a websocket over a pipe. The pipe has no buffer: a write waits
// until the other end reads.
func ends(t *testing.T, serverOptions, clientOptions Options) (server, client *Conn) {
	t.Helper()
	a, b := net.Pipe()
	dialed := make(chan *gorilla.Conn, 1)
	go func() {
		d := gorilla.Dialer{NetDialContext: func(context.Context, string, string) (net.Conn, error) { return b, nil }}
		ws, _, err := d.Dial("ws://pipe/", nil)
		if err != nil {
			t.Error(err)
		}
		dialed <- ws
	}()
	server, err := accept(bufio.NewReader(a), a, serverOptions)
	if err != nil {
		t.Fatal(err)
	}
	return server, newConn(<-dialed, true, clientOptions)
}

const ping = 30 * time.Second

// TestSilentPeerIsLost: a peer that answers pings may be idle for ever. A peer that does not is
// lost after two and a half intervals.
func TestSilentPeerIsLost(t *testing.T) {
	for _, answers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			server, client := ends(t, Options{Ping: ping}, Options{})
			var reading sync.WaitGroup
			if answers {
				reading.Go(func() { _, _ = client.ReadMessage() })
			}
			began := time.Now()
			lost := make(chan error, 1)
			go func() {
				_, err := server.ReadMessage()
				lost <- err
			}()
			select {
			case err := <-lost:
				if took := time.Since(began); answers || !errors.Is(err, ErrSilent) || took < 2*ping || took > 3*ping {
					t.Errorf("answers %t: %v after %v", answers, err, took)
				}
			case <-time.After(time.Hour):
				if !answers {
					t.Error("a silent peer is not noticed")
				}
			}
			_ = client.Abort()
			_ = server.Abort()
			reading.Wait()
		})
	}
}

// TestSlowReaderIsAlive: a peer that reads a large message slowly answers no ping before the
// end of the message.
func TestSlowReaderIsAlive(t *testing.T) {
	for _, count := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			server, client := ends(t, Options{Ping: ping, CountWrites: count}, Options{})
			lost := make(chan error, 1)
			go func() {
				_, err := server.ReadMessage()
				lost <- err
			}()
			const size = 20 * writeSlice
			written := make(chan error, 1)
			go func() {
				frames := server.Seal(append(server.Open(nil), make([]byte, size)...), 0)
				written <- server.WriteFrames(frames)
			}()
			got := 0
			for got < size {
				time.Sleep(ping / 2)
				n, err := client.net.Read(make([]byte, writeSlice))
				if got += n; err != nil {
					break
				}
				if len(lost) > 0 {
					break
				}
			}
			if alive := got >= size; alive != count {
				t.Errorf("writes count %t: %d bytes were read", count, got)
			}
			_ = server.Abort()
			_ = client.Abort()
			<-lost
			<-written
		})
	}
}

// TestNewestPingIsAnswered: while a write waits for the peer, several pings of the peer arrive.
// Only the newest is answered.
func TestNewestPingIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := ends(t, Options{}, Options{})
		var pongs []string
		client.ws.SetPongHandler(func(data string) error { pongs = append(pongs, data); return nil })
		var running sync.WaitGroup
		running.Go(func() { _, _ = server.ReadMessage() })
		running.Go(func() {
			_ = server.Add(Text, []byte("busy"))
			_ = server.Flush()
		})
		synctest.Wait() // the write waits until the peer reads
		for _, data := range []string{"1", "2", "3"} {
			if err := client.WriteFrames(appendFrame(nil, firstByte(opPing, true), true, []byte(data))); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		var message bytes.Buffer
		if _, err := client.ReadTo(&message); err != nil || message.String() != "busy" {
			t.Errorf(`got message %q, error %v; want no error, message "busy"`, message.String(), err)
		}
		running.Go(func() { _, _ = client.ReadMessage() })
		synctest.Wait()
		if strings.Join(pongs, " ") != "3" {
			t.Errorf("answers to %q", pongs)
		}
		_ = server.Abort()
		_ = client.Abort()
		running.Wait()
	})
}

// TestCloseEndsAStuckWrite: Close ends a write that the peer does not read. After the
// incomplete frame, no more is sent.
func TestCloseEndsAStuckWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := ends(t, Options{Ping: ping}, Options{})
		written := make(chan error, 1)
		go func() { written <- server.WriteText(make([]byte, 1<<20)) }()
		synctest.Wait()
		if n, err := client.net.Read(make([]byte, 100)); n != 100 || err != nil {
			t.Fatalf("%d bytes, %v", n, err)
		}
		if err := server.Close(CloseNormal, ""); err != nil {
			t.Error(err)
		}
		if err := <-written; err == nil {
			t.Error("the write has succeeded")
		}
		if n, err := client.net.Read(make([]byte, 100)); err == nil {
			t.Errorf("%d bytes behind the frame that was cut", n)
		}
		if server.Close(CloseNormal, "") != nil || server.Flush() != nil || server.WriteText(nil) == nil {
			t.Error("it writes after its end")
		}
		_ = client.Abort()
	})
}

// TestPingThatNobodyTakes: a write timeout also bounds the writing of pings. The reader returns
// the reason for which the connection has ended.
func TestPingThatNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := ends(t, Options{}, Options{Ping: ping, WriteTimeout: time.Second})
		_, err := client.ReadMessage()
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || errors.Is(err, ErrSilent) {
			t.Errorf("got error %v; want errors.As(err, &timeout), timeout.Timeout(), not %v", err, ErrSilent)
		}
		_ = client.Abort()
		_ = server.Abort()
	})
}

// TestInterrupt: Interrupt ends reading. Collected frames and the close frame are still sent.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := ends(t, Options{Ping: ping}, Options{})
		read := make(chan error, 1)
		go func() {
			_, err := server.ReadMessage()
			read <- err
		}()
		synctest.Wait()
		server.Interrupt()
		if err := <-read; !errors.Is(err, net.ErrClosed) {
			t.Errorf("the read ends with %v", err)
		}
		var running sync.WaitGroup
		running.Go(func() {
			if err := errors.Join(server.Add(Binary, []byte("la"), []byte("st")), server.Flush()); err != nil {
				t.Error(err)
			}
			_ = server.Close(CloseServiceRestart, "why")
		})
		var last bytes.Buffer
		if code, err := client.ReadTo(&last); err != nil || code != Binary || last.String() != "last" {
			t.Errorf(`got last %q, error %v; want no error, code %v, last "last"`, last.String(), err, Binary)
		}
		_, err := client.ReadMessage()
		var closed *CloseError
		if !errors.As(err, &closed) || *closed != (CloseError{CloseServiceRestart, "why"}) || !errors.Is(err, ErrClosed) {
			t.Errorf(`got error %v; want errors.As(err, &closed), closed CloseError{CloseServiceRestart, "why"}, %v`, err, ErrClosed)
		}
		_ = client.Close(closed.Code, "")
		running.Wait()
	})
}

// counted is a connection that counts its writes.
type counted struct {
	net.Conn
	writes atomic.Int32
}

func (c *counted) Write(b []byte) (int, error) { c.writes.Add(1); return c.Conn.Write(b) }

// TestGathering: collected messages are sent in one system call, when there are enough or when
// Flush is called. A long text is sent in fragments.
func TestGathering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := ends(t, Options{}, Options{})
		a, b := net.Pipe()
		conn := &counted{Conn: a}
		client.net = conn
		var got atomic.Int64
		var reading sync.WaitGroup
		reading.Go(func() {
			buffer := make([]byte, 1<<20)
			for {
				n, err := b.Read(buffer)
				if got.Add(int64(n)); err != nil {
					return
				}
			}
		})
		for range 10 {
			if err := client.Add(Binary, make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
		}
		if n := conn.writes.Load(); n != 0 || client.Gathered() == 0 {
			t.Errorf("%d writes before the flush", n)
		}
		if err := client.Flush(); err != nil || conn.writes.Load() != 1 || client.Gathered() != 0 {
			t.Errorf("%d writes for 10 messages: %v", conn.writes.Load(), err)
		}
		if err := client.Add(Binary, make([]byte, gatherBytes)); err != nil || conn.writes.Load() != 2 {
			t.Errorf("%d writes: a large message waits: %v", conn.writes.Load(), err)
		}
		if err := client.WriteText(make([]byte, 3*gatherBytes)); err != nil || conn.writes.Load() != 5 {
			t.Errorf("%d writes: %v", conn.writes.Load(), err)
		}
		_ = client.Abort()
		reading.Wait()
		if got := got.Load(); got < 10_000+4*gatherBytes {
			t.Errorf("%d bytes", got)
		}
	})
}
