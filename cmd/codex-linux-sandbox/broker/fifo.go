package broker

import (
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Opening a FIFO for writing waits for a reader, and connecting a socket for room at its listener. A thread that waited in the kernel could
// not be ended when the caller is, so one thread tries again for all callers, without waiting itself.

// waiting is a call that waits for another process. try reports whether it has ended the call, and drop closes its descriptors.
type waiting struct {
	k    *caller
	try  func() bool
	drop func()
}

// openFIFO opens a held FIFO that may be changed.
func (k *caller) openFIFO(file int, o opening, flags int) reply {
	switch {
	case o.flags&unix.O_ACCMODE == unix.O_RDONLY:
		return k.native(o) // this changes nothing, and may wait
	case o.flags&unix.O_NONBLOCK != 0 || o.flags&unix.O_ACCMODE == unix.O_RDWR:
		fd, err := unix.Open(held(file), flags, 0)
		return opened(fd, err, o)
	}
	own, err := unix.FcntlInt(uintptr(file), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return failed(err)
	}
	return k.later(&waiting{k, func() bool {
		fd, err := unix.Open(held(own), flags|unix.O_NONBLOCK, 0)
		if errors.Is(err, unix.ENXIO) {
			return false
		}
		if err == nil {
			err = unix.SetNonblock(fd, false)
		}
		k.end(k.Call, opened(fd, err, o))
		return true
	}, func() { drop(own) }})
}

// later tries to make a call, and lets it wait if it cannot be made yet.
func (k *caller) later(w *waiting) reply {
	if w.once() {
		return answered
	}
	select {
	case k.waiting <- w:
		return answered
	default:
		w.drop()
		return failed(unix.EAGAIN)
	}
}

// once tries to make the call. It reports whether the call has ended.
func (w *waiting) once() bool {
	if err := w.k.ready(); err != nil {
		w.k.end(w.k.Call, failed(err)) // the caller was killed
		w.drop()
		return true
	}
	if !w.try() {
		return false
	}
	w.drop()
	return true
}

// makeWaiting tries to make the calls that wait, until stop is closed.
func (b *Broker) makeWaiting(stop <-chan struct{}) {
	runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
	if confine() != nil {
		return // they wait until the command has ended
	}
	var all []*waiting
	delay := time.Duration(0)
	for {
		pause := time.After(delay)
		if len(all) == 0 {
			pause = nil
		}
		var arrivals chan *waiting
		if len(all) < maxFIFOs {
			arrivals = b.waiting
		}
		select {
		case <-stop:
			for _, w := range all {
				w.drop()
			}
			return
		case w := <-arrivals:
			all, delay = append(all, w), leastDelay
			continue
		case <-pause:
		}
		left := all[:0]
		for _, w := range all {
			if !w.once() {
				left = append(left, w)
			}
		}
		all, delay = left, min(2*delay, mostDelay)
	}
}
