package process

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// routineStream reads one stream to its end.
func (p *Process) routineStream(s stream) {
	draining := sync.OnceFunc(p.drained.Done)
	defer draining()
	r := &reader{p: p, stream: s}
	var err error
	if r.raw, err = s.file.SyscallConn(); err != nil {
		return
	}
	drained := false
	for {
		err := r.read()
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			// The read was interrupted by the exit, by a cut, or by space in the window.
			_ = s.file.SetReadDeadline(time.Time{})
			if p.cut.Load() {
				_ = r.drain(true, draining)
				return
			}
			if p.exiting.Load() && !drained {
				if errors.Is(r.drain(false, nil), io.EOF) {
					return
				}
				drained = true
				draining()
			}
		default:
			return // the end, or EIO at the end of a terminal
		}
	}
}

// reader moves one stream's output into the log and the sink.
type reader struct {
	p      *Process
	stream stream
	raw    syscall.RawConn
}

// read waits for output and delivers one chunk.
func (r *reader) read() error {
	var b *block
	var n int
	var readErr error
	err := r.raw.Read(func(fd uintptr) bool {
		b = takeBlock()
		n, readErr = r.p.win.read(int(fd), b.data[:])
		if errors.Is(readErr, unix.EAGAIN) || errors.Is(readErr, errWindowFull) {
			// Do not keep a buffer while waiting, because there may be thousands of streams.
			b.release()
			b = nil
			return false
		}
		return true
	})
	if b == nil {
		return err
	}
	defer b.release()
	if readErr != nil {
		return readErr
	}
	if n == 0 {
		return io.EOF
	}
	r.deliver(b, r.fill(b, n))
	return nil
}

// fill reads more of a terminal's output into a block of n bytes, and returns the new length. A
// terminal returns one page per read, and an event costs more than a read. fill never waits.
func (r *reader) fill(b *block, n int) int {
	if r.stream.name != PTY {
		return n
	}
	first := n
	_ = r.raw.Control(func(fd uintptr) {
		for n < len(b.data) {
			m, err := readOnce(int(fd), b.data[n:])
			if err != nil || m == 0 {
				return // the next read returns it again
			}
			n += m
		}
	})
	r.p.win.count(n - first)
	return n
}

// readOnce reads without waiting.
func readOnce(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Read(fd, b)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// deliver numbers one chunk, retains it in the log and passes it to the sink.
func (r *reader) deliver(b *block, n int) {
	data, from := b.data[:n], b
	if n < keepWhole {
		data, from = append(make([]byte, 0, n), data...), nil
	}
	p := r.p
	<-p.gate
	p.emit.Lock()
	defer p.emit.Unlock()
	if n = p.allow(n); n == 0 {
		return
	}
	data = data[:n]
	seq := p.log.output(r.stream.name, data, from)
	if p.win.recordEvent(seq, n) {
		p.wakeStreams()
	}
	p.sink.Output(seq, r.stream.name, data)
}

// drain delivers the output that is in the stream now, and returns io.EOF if the stream has ended.
// It is called after the program has ended. Then a pipe contains all output; a terminal may take
// drainTime to deliver it. If the window is full, drain waits for space if toEnd is set, and
// otherwise leaves the rest to be read later. While it waits, it calls exited once the program has
// ended.
func (r *reader) drain(toEnd bool, exited func()) error {
	left, err := r.available()
	if err != nil {
		return io.EOF
	}
	if r.stream.name == PTY {
		left = drainTerminal
	}
	for {
		n, err := r.readNow()
		switch {
		case errors.Is(err, errWindowFull) && toEnd:
			if err := r.awaitRoom(exited); err != nil {
				return err
			}
		case errors.Is(err, errWindowFull):
			return r.atEnd()
		case errors.Is(err, unix.EAGAIN):
			if r.stream.name != PTY || !r.awaitTerminal() {
				return nil
			}
		case err != nil || n == 0:
			return io.EOF
		default:
			if left -= n; left <= 0 {
				// Another process may write endlessly.
				return r.atEnd()
			}
		}
	}
}

// awaitRoom waits until the window has space, and calls exited once the program has ended.
// Scenario: on a busy machine a killed program ends only after cutTime. Meanwhile the stream waits
// here for an acknowledgement, but the client may send it only after the exit event.
func (r *reader) awaitRoom(exited func()) error {
	for {
		if r.p.exiting.Load() {
			exited()
		}
		err := r.raw.Read(func(uintptr) bool { return r.p.win.room() })
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		_ = r.stream.file.SetReadDeadline(time.Time{})
	}
}

// available returns how many bytes can be read.
func (r *reader) available() (int, error) {
	n, err := 0, error(nil)
	if e := r.raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), countInput) }); e != nil {
		return 0, e
	}
	return n, err
}

// readNow delivers one chunk without waiting.
func (r *reader) readNow() (n int, err error) {
	b := takeBlock()
	defer b.release()
	if e := r.raw.Control(func(fd uintptr) { n, err = r.p.win.read(int(fd), b.data[:]) }); e != nil {
		return 0, e
	}
	if err == nil && n > 0 {
		r.deliver(b, n)
	}
	return n, err
}

// atEnd returns io.EOF if no process has the other end open, and otherwise nil.
func (r *reader) atEnd() error {
	hangup := false
	_ = r.raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		hangup = err == nil && n > 0 && fds[0].Revents&unix.POLLIN == 0 && fds[0].Revents&unix.POLLHUP != 0
	})
	if hangup {
		return io.EOF
	}
	return nil
}

// awaitTerminal waits up to drainTime for more output or the end of a terminal.
func (r *reader) awaitTerminal() bool {
	ready := false
	_ = r.raw.Control(func(fd uintptr) { ready = pollTerminal(int32(fd)) })
	return ready
}

// pollTerminal is the system call of awaitTerminal. It reports whether there is more
// output.
func pollTerminal(fd int32) bool {
	fds := []unix.PollFd{{Fd: fd, Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, int(drainTime/time.Millisecond))
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n > 0 && fds[0].Revents&unix.POLLNVAL == 0
		}
	}
}
