package simulation

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// packet is the data of one write, with the time of its arrival.
type packet struct {
	at   time.Time
	data []byte
}

// wire is one direction of a connection. Bytes arrive with a delay and in order.
//
// The delay depends on the position of a byte, and not on the number of the write, because the
// scheduler decides whether a party sends two messages in one write or in two.
type wire struct {
	seed uint64
	slow time.Duration
	tell func(data []byte) // called with the sent data
	sent uint64            // number of sent bytes

	mu                  sync.Mutex
	changed             chan struct{}
	queue               []packet
	bytes               int
	last                time.Time
	finished            bool // the writer has closed
	silent              bool // no more data arrives
	readErr, writeErr   error
	readLimit, writeEnd time.Time
}

func newWire(seed uint64, slow time.Duration, tell func([]byte)) *wire {
	return &wire{seed: seed, slow: slow, tell: tell, changed: make(chan struct{})}
}

// change wakes all waiting goroutines. The caller must hold the lock.
func (w *wire) change() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// wait releases the lock until the state changes or one of the times is reached.
func (w *wire) wait(moments ...time.Time) {
	changed := w.changed
	w.mu.Unlock()
	defer w.mu.Lock()
	var next time.Time
	for _, m := range moments {
		if !m.IsZero() && (next.IsZero() || m.Before(next)) {
			next = m
		}
	}
	if next.IsZero() {
		<-changed
		return
	}
	t := time.NewTimer(time.Until(next))
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	}
}

func passed(moment time.Time) bool { return !moment.IsZero() && !time.Now().Before(moment) }

func (w *wire) read(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		var next time.Time
		switch {
		case w.readErr != nil:
			return 0, w.readErr
		case passed(w.readLimit):
			return 0, os.ErrDeadlineExceeded
		case w.silent:
		case len(w.queue) > 0 && passed(w.queue[0].at):
			p := &w.queue[0]
			n := copy(b, p.data)
			if p.data = p.data[n:]; len(p.data) == 0 {
				w.queue = w.queue[1:]
			}
			w.bytes -= n
			w.change()
			return n, nil
		case len(w.queue) > 0:
			next = w.queue[0].at
		case w.finished && passed(w.last):
			return 0, io.EOF
		case w.finished:
			next = w.last
		}
		w.wait(next, w.readLimit)
	}
}

func (w *wire) write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	written := 0
	for {
		switch {
		case w.writeErr != nil:
			return written, w.writeErr
		case passed(w.writeEnd):
			return written, os.ErrDeadlineExceeded
		case written == len(b):
			return written, nil
		case w.bytes < socketBytes:
			n := min(len(b)-written, socketBytes-w.bytes, int(segment-w.sent%segment))
			w.push(append([]byte(nil), b[written:written+n]...))
			written += n
		default:
			w.wait(w.writeEnd)
		}
	}
}

// push sends a packet. The caller must hold the lock.
func (w *wire) push(data []byte) {
	at := time.Now().Add(w.delay())
	if at.Before(w.last) {
		at = w.last
	}
	w.last = at
	w.queue = append(w.queue, packet{at, data})
	w.bytes += len(data)
	w.sent += uint64(len(data))
	w.tell(data)
	w.change()
}

// segment is the maximum number of bytes of a connection that arrive with the same delay.
const segment = 4 << 10

func (w *wire) delay() time.Duration {
	rng := rand.New(rand.NewPCG(w.seed, w.sent/segment))
	d := between(rng, w.slow/2+1, w.slow+2)
	if rng.IntN(60) == 0 {
		d += between(rng, time.Millisecond, 3*time.Second)
	}
	return d
}

func (w *wire) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.finished {
		return
	}
	w.finished = true
	if w.writeErr == nil {
		w.writeErr = net.ErrClosed
	}
	if at := time.Now().Add(w.delay()); at.After(w.last) {
		w.last = at
	}
	w.change()
}

// abandon means that no one reads the data any more. The writer gets a reset.
func (w *wire) abandon() {
	w.fail(net.ErrClosed, true)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writeErr == nil && !w.silent {
		w.writeErr = syscall.EPIPE
		w.change()
	}
}

func (w *wire) fail(err error, reader bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if reader && (w.readErr == nil || !errors.Is(w.readErr, net.ErrClosed)) {
		w.readErr = err
	}
	if !reader && w.writeErr == nil {
		w.writeErr = err
	}
	w.change()
}

func (w *wire) silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = true
	w.change()
}

// stall delays all data that arrives before the end of the pause.
func (w *wire) stall(pause time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	until := time.Now().Add(pause)
	for i := range w.queue {
		if w.queue[i].at.Before(until) {
			w.queue[i].at = until
		}
	}
	if w.last.Before(until) {
		w.last = until
	}
	w.change()
}

func (w *wire) deadline(t time.Time, reader bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if reader {
		w.readLimit = t
	} else {
		w.writeEnd = t
	}
	w.change()
}
