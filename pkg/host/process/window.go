package process

import (
	"errors"
	"sync"
)

// errWindowFull means that no output is read until the receiver acknowledges events.
var errWindowFull = errors.New("the window is full")

// window bounds the output of a process that its receiver has not acknowledged. Streams are read
// through it, so that further output stays in the pipe. At most one chunk exceeds its size.
//
// With size 0 there is no window: every read is permitted, and no bytes are counted.
type window struct {
	size int // bytes; constant

	mu      sync.Mutex
	acked   uint64    // the highest number that was acknowledged
	unacked int       // bytes that were read and are not acknowledged
	events  []unacked // unacknowledged events, the oldest first
	refused bool      // a stream waits for space
}

// unacked is one event that was not acknowledged, and its size in bytes.
type unacked struct {
	seq   uint64
	bytes int
}

// clampWindow returns a size in bytes within MinWindow and MaxWindow; 0 stays 0.
func clampWindow(size uint64) int {
	if size == 0 {
		return 0
	}
	return int(min(max(size, MinWindow), MaxWindow))
}

// full reports whether reading is not permitted. The caller holds the lock.
func (w *window) full() bool {
	return w.unacked >= w.size || len(w.events) >= maxUnacked
}

// read reads from fd without waiting, or returns errWindowFull. It holds the lock, so that two
// streams cannot both use the rest of the window.
func (w *window) read(fd int, b []byte) (int, error) {
	if w.size == 0 {
		return readOnce(fd, b)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full() {
		w.refused = true
		return 0, errWindowFull
	}
	n, err := readOnce(fd, b)
	w.unacked += max(n, 0)
	return n, err
}

// room reports whether the window has space. If not, the next acknowledgement that frees space
// wakes the streams.
func (w *window) room() bool {
	if w.size == 0 {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = w.refused || w.full()
	return !w.full()
}

// count adds bytes that were not read by the method read.
func (w *window) count(n int) {
	if w.size == 0 {
		return
	}
	w.mu.Lock()
	w.unacked += n
	w.mu.Unlock()
}

// recordEvent associates n unacknowledged bytes with the event number seq, and
// reports whether waiting streams must be woken.
func (w *window) recordEvent(seq uint64, n int) (wake bool) {
	if w.size == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, unacked{seq, n})
	return w.dropAcked()
}

// ack acknowledges the events up to seq, and reports whether waiting streams
// must be woken.
func (w *window) ack(seq uint64) (wake bool) {
	if w.size == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked = max(w.acked, seq)
	return w.dropAcked()
}

// dropAcked removes the acknowledged events, and reports whether waiting streams
// must be woken. The caller holds the lock.
func (w *window) dropAcked() (wake bool) {
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
