package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/testutil"
	wire "codex.internal/pkg/wire/websocket"
)

// await waits until what returns true.
func await(t *testing.T, what func() bool) {
	t.Helper()
	testutil.Eventually(t.Context(), t, "it to happen", func() (string, bool) { return "not yet", what() })
}

// knowsAcks reports whether an end knows that its peer acknowledges. It also returns true for an
// end that has ended.
func knowsAcks(s *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frames.Acking() || s.err != nil
}

// awaitAcking waits until the harness knows that its executor acknowledges.
func awaitAcking(t *testing.T, c *Conn) {
	t.Helper()
	await(t, func() bool { return knowsAcks(c.s) })
}

func dial(t *testing.T, h *Harness) *Conn {
	t.Helper()
	c, err := h.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// message is one of about n bytes.
func message(n, of int) []byte {
	return fmt.Appendf(nil, `{"method":"m%d","params":"%s"}`, n, strings.Repeat("x", of))
}

// exchange sends messages and expects them back.
func exchange(c *Conn, messages ...[]byte) error {
	sent := make(chan error, 1)
	go func() {
		for _, m := range messages {
			if err := c.Write(m); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for i, m := range messages {
		got, err := c.Read()
		if err != nil {
			return errors.Join(err, <-sent)
		}
		if !bytes.Equal(got, m) {
			return fmt.Errorf("message %d has %d bytes, not %d, or others", i, len(got), len(m))
		}
	}
	return <-sent
}

func TestMessagesOfEverySize(t *testing.T) {
	for _, plain := range []bool{false, true} {
		d := newDouble(t)
		d.Run(t, ExecutorOptions{Serve: echo, Plain: plain})
		h := d.harness(HarnessOptions{})
		var wg sync.WaitGroup
		for range 4 {
			c := dial(t, h)
			wg.Go(func() {
				envelope := len(message(0, 0)) + headerSize
				sizes := []int{0, noise.MaxChunk - envelope, noise.MaxChunk - envelope + 1, 2 << 20}
				var all [][]byte
				for i, n := range sizes {
					all = append(all, message(i, n))
				}
				if err := exchange(c, all...); err != nil {
					t.Errorf("plain %v: %v", plain, err)
				}
			})
		}
		wg.Wait()
	}
}

// TestCuts breaks websockets of both ends and loses frames while messages are
// exchanged. Each message must arrive once and in order, on the same stream.
func TestCuts(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	d := newDouble(t)
	var mu sync.Mutex
	n := 0
	d.lose = func(f frame.Frame) bool {
		if f.Kind != frame.Data || f.Seq == 0 {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		n++
		return n%23 == 0
	}
	d.Run(t, ExecutorOptions{Serve: echo})
	h := d.harness(HarnessOptions{})
	var wg sync.WaitGroup
	conns := []*Conn{dial(t, h), dial(t, h), dial(t, h)}
	for _, c := range conns {
		if err := exchange(c, message(0, 1)); err != nil {
			t.Fatal(err)
		}
		awaitAcking(t, c)
	}
	for i, c := range conns {
		wg.Go(func() {
			for round := range 15 {
				if err := exchange(c, message(round, i), message(round, 100_000), message(round, 10)); err != nil {
					t.Errorf("stream %d, round %d: %v", i, round, err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for _, chance := range []float64{1, 0.5, 0.5, 0.5} {
			<-tick.C
			d.cut(chance)
		}
	})
	wg.Wait()
	if n := d.dials.Load(); n < 2*int64(len(conns)) {
		t.Errorf("%d websockets for %d streams: none was replaced", n, len(conns))
	}
}

// TestStreamsThatEnd: each stream that ends has a reason.
func TestStreamsThatEnd(t *testing.T) {
	t.Run("with the websocket of a plain executor", func(t *testing.T) {
		d := newDouble(t)
		d.Run(t, ExecutorOptions{Serve: echo, Plain: true})
		h := d.harness(HarnessOptions{})
		c := dial(t, h)
		if err := exchange(c, message(1, 1)); err != nil {
			t.Fatal(err)
		}
		d.cut(1)
		if _, err := c.Read(); !errors.Is(err, frame.ErrLost) {
			t.Errorf("Read: %v", err)
		}
		if err := c.Write(message(1, 1)); !errors.Is(err, frame.ErrLost) {
			t.Errorf("Write: %v", err)
		}
	})
	t.Run("with Serve", func(t *testing.T) {
		d := newDouble(t)
		d.Run(t, ExecutorOptions{Serve: func(c wire.Transport) {
			_ = c.WriteFrames(c.Seal(append(c.Open(nil), hello...), 0))
			_ = c.Close(wire.CloseNormal, "")
		}})
		c := dial(t, d.harness(HarnessOptions{}))
		if got, err := c.Read(); err != nil || string(got) != hello {
			t.Errorf("got %q, error %v; want no error, %q", got, err, hello)
		}
		if _, err := c.Read(); !errors.Is(err, frame.ErrReset) || err.Error() != "Noise relay stream reset" {
			t.Errorf("Read: %v", err)
		}
	})
	t.Run("with Close", func(t *testing.T) {
		d := newDouble(t)
		served := make(chan error, 1)
		d.Run(t, ExecutorOptions{Serve: func(c wire.Transport) {
			_, _ = c.ReadMessage()
			_, err := c.ReadMessage()
			served <- err
		}})
		c := dial(t, d.harness(HarnessOptions{}))
		if err := c.Write(message(1, 1)); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		if err := <-served; !errors.Is(err, wire.ErrClosed) {
			t.Errorf("the executor: %v", err)
		}
		if _, err := c.Read(); !errors.Is(err, ErrClosed) {
			t.Errorf("Read: %v", err)
		}
	})
	t.Run("with a message that is too long", func(t *testing.T) {
		d := newDouble(t)
		d.Run(t, ExecutorOptions{Serve: echo})
		c := dial(t, d.harness(HarnessOptions{}))
		if err := c.Write(make([]byte, noise.MaxMessage+1)); !errors.Is(err, noise.ErrFraming) {
			t.Errorf("Write: %v", err)
		}
		if _, err := c.Read(); !errors.Is(err, noise.ErrFraming) {
			t.Errorf("Read: %v", err)
		}
	})
	t.Run("with the executor's registration", func(t *testing.T) {
		d := newDouble(t)
		d.Run(t, ExecutorOptions{Serve: echo})
		var asked int
		c := dial(t, d.harness(HarnessOptions{Connect: func(context.Context) (Bundle, error) {
			b := d.bundle()
			if asked++; asked > 1 {
				b.RegistrationID = "another"
			}
			return b, nil
		}}))
		if err := exchange(c, message(1, 1)); err != nil {
			t.Fatal(err)
		}
		awaitAcking(t, c)
		d.cut(1)
		if _, err := c.Read(); !errors.Is(err, errOther) || !errors.Is(err, frame.ErrLost) {
			t.Errorf("Read: %v", err)
		}
	})
}

// TestHeldBack: a harness sends to an executor that does not read. The harness has to wait, while
// other streams continue. When the executor reads again, nothing is lost.
func TestHeldBack(t *testing.T) {
	d := newDouble(t)
	gate := make(chan struct{})
	var once sync.Once
	d.Run(t, ExecutorOptions{Serve: func(c wire.Transport) {
		first := false
		once.Do(func() { first = true })
		if first {
			m, err := c.ReadMessage()
			if err != nil {
				t.Error(err)
				return
			}
			_ = c.WriteFrames(c.Seal(append(c.Open(nil), m.Bytes()...), 0))
			<-gate
		}
		echo(c)
	}})
	h := d.harness(HarnessOptions{})
	slow := dial(t, h)
	if err := exchange(slow, message(0, 1)); err != nil {
		t.Fatal(err)
	}
	quick := dial(t, h) // only now: the first that is served is the slow one
	const many = 2*inboxMessages + 100
	written := make(chan int, many)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range many {
			if err := slow.Write(message(i, 1)); err != nil {
				t.Error(err)
				return
			}
			written <- i
		}
	})
	for i := range inboxMessages {
		if got := <-written; got != i {
			t.Fatalf("message %d, want %d", got, i)
		}
	}
	if err := exchange(quick, message(1, 100_000), message(2, 1)); err != nil {
		t.Fatal(err)
	}
	if n := len(written); n >= many-inboxMessages {
		t.Errorf("%d more messages were written than anybody takes", n)
	}
	close(gate)
	for i := range many {
		got, err := slow.Read()
		if err != nil || !bytes.Equal(got, message(i, 1)) {
			t.Fatalf("message %d: %q, %v", i, got, err)
		}
	}
	wg.Wait()
}

// TestSlowHarness is the other direction: an executor sends to a harness that
// does not read.
func TestSlowHarness(t *testing.T) {
	d := newDouble(t)
	const many, size = 250, 60_000
	var sent atomic.Int64
	d.Run(t, ExecutorOptions{Serve: func(c wire.Transport) {
		m, err := c.ReadMessage()
		if err != nil {
			return
		}
		for i := 0; bytes.Contains(m.Bytes(), []byte("m0")) && i < many; i++ {
			if c.WriteFrames(c.Seal(append(c.Open(nil), message(i, size)...), 0)) != nil {
				return
			}
			// Before the first acknowledgement the executor would not have to wait.
			for st := c.(*streamConn).s; !knowsAcks(st); runtime.Gosched() {
			}
			sent.Add(1)
		}
		echo(c)
	}})
	h := d.harness(HarnessOptions{})
	slow, quick := dial(t, h), dial(t, h)
	if err := errors.Join(slow.Write(message(0, 1)), quick.Write(message(1, 1))); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return sent.Load() >= inboxMessages })
	if err := exchange(quick, message(1, 100_000), message(2, 1)); err != nil {
		t.Fatal(err)
	}
	if n := sent.Load(); n >= many {
		t.Errorf("%d messages were sent to who reads none", n)
	}
	for i := range many {
		got, err := slow.Read()
		if err != nil || !bytes.Equal(got, message(i, size)) {
			t.Fatalf("message %d: %d bytes, %v", i, len(got), err)
		}
	}
}

// TestRetryPause: the pause grows with each attempt, and varies by up to half.
func TestRetryPause(t *testing.T) {
	h := NewHarness(HarnessOptions{})
	for attempt, ms := range map[int]time.Duration{-1: 500, 0: 500, 1: 1000, 2: 2000, 3: 4000, 4: 5000, 5: 5000, 100: 5000} {
		base := ms * time.Millisecond
		pauses := make(map[time.Duration]bool)
		for range 100 {
			p := h.RetryPause(attempt)
			if p < base || p > base+base/2 {
				t.Fatalf("attempt %d: %v", attempt, p)
			}
			pauses[p] = true
		}
		if len(pauses) < 2 {
			t.Errorf("attempt %d: always %v", attempt, pauses)
		}
	}
}

// TestRetryPauseTakesItsJitter: the pause uses the Jitter of the options, so the same Jitter gives
// the same pause.
func TestRetryPauseTakesItsJitter(t *testing.T) {
	var most time.Duration
	h := NewHarness(HarnessOptions{Jitter: func(m time.Duration) time.Duration { most = m; return 7 }})
	if p := h.RetryPause(1); p != time.Second+7 || most != time.Second/2+1 {
		t.Errorf("the pause is %v, of at most %v at random", p, most)
	}
}

// TestSilentExecutor: the harness gives up an executor that does not answer, and notifies it.
func TestSilentExecutor(t *testing.T) {
	checkLeaks(t)
	url, accepted := acceptor(t)
	h := NewHarness(HarnessOptions{Identity: identity(), Connect: func(context.Context) (Bundle, error) {
		return Bundle{Registration: Registration{URL: url}, ExecutorKey: identity().PublicKey()}, nil
	}})
	if h.patience != 10*time.Second {
		t.Errorf("it has %v", h.patience)
	}
	h.patience = 50 * time.Millisecond
	const want = "timed out waiting for exec-server initialize handshake after 50ms"
	if _, err := h.Dial(t.Context()); err == nil || err.Error() != want || !retryable(err) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	r := next(t, accepted)
	id := r.get().StreamID
	r.expect(id, frame.Handshake)
	if f := r.get(); f.StreamID != id || f.Kind != frame.Reset || f.Reason != reasonHarness {
		t.Errorf("the executor is told %v", f.Kind)
	}
}
