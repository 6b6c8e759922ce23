package broker

import (
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Opening a FIFO for writing waits for a reader. A thread that waited in the kernel could not be ended when the caller is, so one thread
// tries again for all callers, without waiting itself.

// waiting is an open of a FIFO that waits for a reader.
type waiting struct {
	k     *caller
	file  int // the held FIFO; owned
	flags int
	o     opening
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
	w := &waiting{k: k, file: own, flags: flags, o: o}
	if w.try() {
		return answered
	}
	select {
	case k.fifos <- w:
		return answered
	default:
		drop(own)
		return failed(unix.EAGAIN)
	}
}

// try tries to open the FIFO. It reports whether the call has ended.
func (w *waiting) try() bool {
	if w.k.listener.Valid(w.k.Call) != nil {
		drop(w.file)
		return true // the caller was killed
	}
	fd, err := unix.Open(held(w.file), w.flags|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENXIO) {
		return false
	}
	if err == nil {
		err = unix.SetNonblock(fd, false)
	}
	w.k.end(w.k.Call, opened(fd, err, w.o))
	drop(w.file)
	return true
}

// openFIFOs tries to open the FIFOs that wait, until stop is closed.
func (b *Broker) openFIFOs(stop <-chan struct{}) {
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
			arrivals = b.fifos
		}
		select {
		case <-stop:
			for _, w := range all {
				drop(w.file)
			}
			return
		case w := <-arrivals:
			all, delay = append(all, w), leastDelay
			continue
		case <-pause:
		}
		left := all[:0]
		for _, w := range all {
			if !w.try() {
				left = append(left, w)
			}
		}
		all, delay = left, min(2*delay, mostDelay)
	}
}
