//go:build linux || darwin

package process

import (
	"errors"
	"sync"
)

// errHeld says that the window is full: nothing is read at the moment.
var errHeld = errors.New("the window is full")

// window bounds the output of a process that its receiver has not
// acknowledged. Streams read through it, so that what exceeds it stays in the
// pipe; there is at most one chunk more than its size.
//
// Size 0 is no window: nothing is refused, and nothing is counted.
type window struct {
	size int // bytes; constant

	mu      sync.Mutex
	acked   uint64    // the highest number that was acknowledged
	unacked int       // bytes that were read and are not acknowledged
	events  []unacked // those of them that are numbered, the oldest first
	refused bool      // a stream waits for room
}

// unacked is one event that was not acknowledged, and its size in bytes.
type unacked struct {
	seq   uint64
	bytes int
}

// clampWindow brings a size in bytes within the limits; 0 stays.
func clampWindow(size uint64) int {
	if size == 0 {
		return 0
	}
	return int(min(max(size, MinWindow), MaxWindow))
}

// full reports whether nothing may be read. The caller holds the lock.
func (w *window) full() bool {
	return w.unacked >= w.size || len(w.events) >= maxUnacked
}

// read reads from fd without waiting, or returns errHeld. The lock is held
// meanwhile so that two streams do not both take what is left of the window.
func (w *window) read(fd int, b []byte) (int, error) {
	if w.size == 0 {
		return readOnce(fd, b)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full() {
		w.refused = true
		return 0, errHeld
	}
	n, err := readOnce(fd, b)
	w.unacked += max(n, 0)
	return n, err
}

// room reports whether something may be read.
func (w *window) room() bool {
	if w.size == 0 {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = w.refused || w.full()
	return !w.full()
}

// count counts bytes that were read besides.
func (w *window) count(n int) {
	if w.size == 0 {
		return
	}
	w.mu.Lock()
	w.unacked += n
	w.mu.Unlock()
}

// numbered notes the number under which n of the bytes became an event, and
// reports whether streams that wait must look again.
func (w *window) numbered(seq uint64, n int) (wake bool) {
	if w.size == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, unacked{seq, n})
	return w.settle()
}

// ack notes that events up to seq were acknowledged, and reports whether
// streams that wait must look again.
func (w *window) ack(seq uint64) (wake bool) {
	if w.size == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked = max(w.acked, seq)
	return w.settle()
}

// settle forgets the events that are acknowledged. The caller holds the lock.
func (w *window) settle() (wake bool) {
	done := 0
	for done < len(w.events) && w.events[done].seq <= w.acked {
		w.unacked -= w.events[done].bytes
		done++
	}
	w.events = w.events[done:]
	if !w.refused || w.full() {
		return false
	}
	w.refused = false
	return true
}
