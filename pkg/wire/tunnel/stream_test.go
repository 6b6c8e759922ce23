package tunnel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errCut = errors.New("the connection is lost")

// wire carries messages to one stream until it is cut. Like the reader of a connection, one
// goroutine delivers the messages in order.
type wire struct {
	messages chan func(*Stream)
	cut      chan struct{}
}

func newWire(to *Stream, running *sync.WaitGroup) *wire {
	w := &wire{make(chan func(*Stream), 4), make(chan struct{})}
	running.Go(func() {
		for {
			select {
			case m := <-w.messages:
				m(to)
			case <-w.cut:
				return
			}
		}
	})
	return w
}

func (w *wire) send(ctx context.Context, m func(*Stream)) error {
	select {
	case <-w.cut:
		return errCut
	default:
	}
	select {
	case w.messages <- m:
		return nil
	case <-w.cut:
		return errCut
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *wire) Data(ctx context.Context, _, offset uint64, data []byte, end bool) error {
	data = bytes.Clone(data)
	return w.send(ctx, func(s *Stream) { must(s.Data(offset, data, end)) })
}

func (w *wire) Ack(ctx context.Context, _, position uint64) error {
	return w.send(ctx, func(s *Stream) { must(s.Ack(position)) })
}

func (w *wire) Close(ctx context.Context, _ uint64, reason string) error {
	return w.send(ctx, func(s *Stream) { s.PeerClosed(reason) })
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// ends has both ends of a tunnel.
type ends struct {
	a, b    *Stream
	running sync.WaitGroup // counts the goroutines of wires
	wires   []*wire
	done    sync.WaitGroup // counts both streams
}

func newEnds() *ends {
	e := &ends{}
	e.done.Add(2)
	over := func(*Stream) { e.done.Done() }
	e.a, e.b = New(context.Background(), 1, nil, 0, over), New(context.Background(), 1, nil, 0, over)
	e.a.Open(Window)
	e.b.Open(Window)
	e.connect()
	return e
}

func (e *ends) connect() {
	toA, toB := newWire(e.a, &e.running), newWire(e.b, &e.running)
	e.wires = []*wire{toA, toB}
	fromA, fromB := e.a.Received(), e.b.Received()
	must(e.a.Resume(toB, fromB))
	must(e.b.Resume(toA, fromA))
	e.running.Go(e.a.Flush)
	e.running.Go(e.b.Flush)
}

// cut ends the connection and drops all messages in flight.
func (e *ends) cut() {
	for _, w := range e.wires {
		close(w.cut)
	}
	e.running.Wait()
}

// TestCuts sends bytes in both directions while the connection is cut again and again.
func TestCuts(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	e := newEnds()
	const size = 4 << 20
	random := rand.NewChaCha8([32]byte{1})
	sum := func(r io.Reader) [32]byte {
		h := sha256.New()
		if _, err := io.Copy(h, r); err != nil {
			t.Errorf("read: %v", err)
		}
		return [32]byte(h.Sum(nil))
	}
	var wg sync.WaitGroup
	for _, pair := range [][2]*Stream{{e.a, e.b}, {e.b, e.a}} {
		data := make([]byte, size)
		_, _ = random.Read(data)
		want := sha256.Sum256(data)
		wg.Go(func() {
			for i := 1; len(data) > 0; i++ {
				n := min(len(data), i*i%100_000)
				if _, err := pair[0].Write(data[:n]); err != nil {
					t.Errorf("write: %v", err)
					return
				}
				data = data[n:]
			}
			_ = pair[0].CloseWrite()
		})
		wg.Go(func() {
			if got := sum(pair[1]); got != want {
				t.Error("other bytes were read than written")
			}
		})
	}
	finished := make(chan struct{})
	go func() { wg.Wait(); close(finished) }()
	cuts := 0
	for over := false; !over; cuts++ {
		select {
		case <-finished:
			over = true
		default:
			e.cut()
			e.connect()
		}
	}
	e.done.Wait()
	e.cut()
	if cuts < 2 {
		t.Errorf("%d cuts", cuts)
	}
}

// TestClose: the other end notices each way in which a tunnel can end.
func TestClose(t *testing.T) {
	t.Run("half", func(t *testing.T) {
		e := newEnds()
		_, _ = e.a.Write([]byte("question"))
		_ = e.a.CloseWrite()
		if got, err := io.ReadAll(e.b); string(got) != "question" || err != nil {
			t.Errorf(`got %q, error %v; want "question", no error`, got, err)
		}
		_, _ = e.b.Write([]byte("answer"))
		_ = e.b.CloseWrite()
		if got, err := io.ReadAll(e.a); string(got) != "answer" || err != nil {
			t.Errorf(`got %q, error %v; want "answer", no error`, got, err)
		}
		if _, err := e.a.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("write after CloseWrite: %v", err)
		}
		e.done.Wait()
		e.cut()
	})
	t.Run("full", func(t *testing.T) {
		e := newEnds()
		_, _ = e.a.Write([]byte("last words"))
		_ = e.a.Close()
		if got, err := io.ReadAll(e.b); string(got) != "last words" || err != nil {
			t.Errorf(`got %q, error %v; want "last words", no error`, got, err)
		}
		e.done.Wait()
		var closed *ClosedError
		if _, err := e.b.Write([]byte("x")); !errors.As(err, &closed) {
			t.Errorf("write to a closed tunnel: %v", err)
		}
		e.cut()
	})
	t.Run("abort", func(t *testing.T) {
		e := newEnds()
		_ = e.a.Abort("connection reset by peer")
		var closed *ClosedError
		if _, err := e.b.Read(make([]byte, 1)); !errors.As(err, &closed) || closed.Reason != "connection reset by peer" {
			t.Errorf("read: %v", err)
		}
		if _, err := e.a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read of the end that was aborted: %v", err)
		}
		e.done.Wait()
		e.cut()
	})
	t.Run("peer does not read on", func(t *testing.T) {
		e := newEnds()
		_, _ = e.a.Write([]byte("never read"))
		_ = e.a.Close()
		for _, closed := e.b.Closed(); !closed; _, closed = e.b.Closed() {
			_, _ = e.b.Read(make([]byte, 1))
		}
		_ = e.b.Abort("broken pipe")
		e.done.Wait()
		e.cut()
	})
}

// TestWindow has a peer that does not read, and a peer that sends more than its window permits.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnds()
		_ = e.a.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := e.a.Write(make([]byte, 2*Window))
		if n != Window || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes were taken, %v", n, err)
		}
		_ = e.b.SetReadDeadline(time.Now().Add(-time.Second))
		if _, err := e.b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read after its deadline: %v", err)
		}
		e.cut()
		e.a.Fail(errCut)
		e.b.Fail(errCut)
		e.done.Wait()
	})
	over := func(*Stream) {}
	for name, message := range map[string]func(*Stream) error{
		"more than the window": func(s *Stream) error { return s.Data(0, make([]byte, Window+1), false) },
		"a gap":                func(s *Stream) error { return s.Data(1, []byte("x"), false) },
		"after the end": func(s *Stream) error {
			return errors.Join(s.Data(0, nil, true), s.Data(0, []byte("x"), false))
		},
		"never sent":     func(s *Stream) error { return s.Ack(1) },
		"never reached":  func(s *Stream) error { return s.Resume(nil, 1) },
		"end never sent": func(s *Stream) error { return s.Ack(1<<64 - 1) },
	} {
		var violation *Violation
		if err := message(New(t.Context(), 1, nil, 0, over)); !errors.As(err, &violation) {
			t.Errorf("%s: got error %v, want errors.As(err, &violation)", name, err)
		}
	}
}

// TestJoin connects a stream with a TCP connection.
func TestJoin(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	e := newEnds()
	var joining sync.WaitGroup
	joining.Go(func() {
		if err := Join(e.b, far); err != nil {
			t.Errorf("Join: %v", err)
		}
	})
	go func() {
		_, _ = e.a.Write([]byte("question"))
		_ = e.a.CloseWrite()
	}()
	if got, err := io.ReadAll(near); string(got) != "question" || err != nil {
		t.Errorf(`got %q, error %v; want "question", no error`, got, err)
	}
	_, _ = near.Write([]byte("answer"))
	_ = near.Close()
	if got, err := io.ReadAll(e.a); string(got) != "answer" || err != nil {
		t.Errorf(`got %q, error %v; want "answer", no error`, got, err)
	}
	joining.Wait()
	e.done.Wait()
	e.cut()
}

// TestFailWhileWriting: a session ends while its connection accepts no bytes. No goroutine may
// wait for the connection.
func TestFailWhileWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnds()
		near, far := net.Pipe()
		defer near.Close()
		var joining sync.WaitGroup
		joining.Go(func() { _ = Join(e.b, far) })
		_, _ = e.a.Write([]byte("never read"))
		synctest.Wait()
		began := time.Now()
		e.b.Fail(errCut)
		joining.Wait()
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it ends after %v", waited)
		}
		e.cut()
		e.a.Fail(errCut)
		e.done.Wait()
	})
}

// FuzzMessages passes any messages to a stream. The stream must not panic, store more than its
// window, or deliver bytes out of order.
func FuzzMessages(f *testing.F) {
	f.Add([]byte{0, 0, 3, 1, 3, 2, 2, 0, 0, 3, 1, 0})
	f.Add([]byte{0, 0, 200, 0, 100, 200, 4, 0, 0, 5, 0, 0, 0, 1, 1})
	f.Fuzz(func(t *testing.T, script []byte) {
		over := 0
		s := New(t.Context(), 1, nil, 16, func(*Stream) { over++ })
		_ = s.SetReadDeadline(time.Unix(1, 0))
		_ = s.SetWriteDeadline(time.Unix(1, 0))
		var next byte
		for ; len(script) >= 3; script = script[3:] {
			at, n := uint64(script[1]), int(script[2])
			switch script[0] % 8 {
			case 0:
				data := make([]byte, n)
				for i := range data {
					data[i] = byte(at) + byte(i)
				}
				_ = s.Data(at, data, n == 7)
			case 1:
				_ = s.SetReadDeadline(time.Time{})
				if s.Received() > s.position() || s.peerEnded {
					b := make([]byte, n+1)
					got, _ := s.Read(b)
					for _, c := range b[:got] {
						if c != next {
							t.Fatalf("byte %d is %d", next, c)
						}
						next++
					}
				}
				_ = s.SetReadDeadline(time.Unix(1, 0))
			case 2:
				_ = s.Ack(at)
			case 3:
				_ = s.Resume(nil, at)
			case 4:
				s.PeerClosed("")
			case 5:
				_ = s.CloseWrite()
			case 6:
				_ = s.Close()
			case 7:
				_, _ = s.Write(make([]byte, n))
			}
			if s.received-s.consumed > Window || over > 1 || s.acked > s.next || s.next > s.written {
				t.Fatalf("got %+v; want s.received-s.consumed at most %v, over at most 1, s.acked at most %v, s.next at most %v", s, Window, s.next, s.written)
			}
		}
	})
}
