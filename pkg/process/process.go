//go:build linux || darwin

package process

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// Sink receives the events of one process: one at a time, in the order of
// their numbers. Output may block; meanwhile the process's output is not read,
// which is how a slow receiver slows the process. Its chunk is valid during
// the call only. A Sink must let go when its receiver is gone for good.
type Sink interface {
	Output(seq uint64, s Stream, chunk []byte)
	Exited(seq uint64, code int, judged bool)
	Closed(seq uint64)
}

// Process is one started process with its output and its descendants. Its
// methods may be called from any goroutine.
//
// States: running, exited (the program has ended, but something may still
// hold its output), closed (all output ended; the last event was delivered).
// It has a goroutine per stream, one that waits for the exit, and while
// writes wait one that serves them; all end before it is closed.
type Process struct {
	group *Group
	spec  Spec
	sink  Sink
	pid   int
	log   eventLog
	stdin stdin
	cg    cgroupDir

	// gate holds events back until OpenGate.
	gate     chan struct{}
	gateOnce sync.Once

	// emit is held while one event is numbered and delivered.
	emit sync.Mutex

	mu     sync.Mutex
	reaped bool        // its pid is no longer ours
	over   bool        // its descriptors are being closed
	timer  *time.Timer // kills what is left, or cuts it off

	exiting  atomic.Bool // the program has ended; streams drain
	cut      atomic.Bool // streams end now
	drained  sync.WaitGroup
	streams  []stream
	tty      *os.File
	finished chan struct{}
}

// State is a snapshot of how far a process is.
type State struct {
	Exited   bool
	ExitCode *int
	Closed   bool
}

// Pid returns the process id, which is also its session and group id.
func (p *Process) Pid() int { return p.pid }

// Done is closed when the process has closed.
func (p *Process) Done() <-chan struct{} { return p.finished }

// OpenGate lets events out. Until then the output waits in its pipes.
func (p *Process) OpenGate() { p.gateOnce.Do(func() { close(p.gate) }) }

// Read returns retained output with a number above after (section 4): at
// least one chunk if there is any, further ones while their sum stays within
// maxBytes. It waits up to wait for something to tell.
func (p *Process) Read(ctx context.Context, after uint64, maxBytes *uint64, wait time.Duration) (ReadResult, error) {
	return p.log.read(ctx, after, maxBytes, wait)
}

// State returns how far the process is.
func (p *Process) State() State {
	r, _ := func() (ReadResult, bool) {
		p.log.mu.Lock()
		defer p.log.mu.Unlock()
		return p.log.snapshot(p.log.last, nil)
	}()
	return State{Exited: r.Exited, ExitCode: r.ExitCode, Closed: r.Closed}
}

// Retained returns how many bytes of output are retained.
func (p *Process) Retained() int { return p.log.retained() }

// Release frees the retained output.
func (p *Process) Release() { p.log.release() }

// Resize sets the terminal's size in character cells.
func (p *Process) Resize(rows, cols uint16) error {
	if p.tty == nil {
		return errors.New("the process has no terminal")
	}
	err := pty.Setsize(p.tty, &pty.Winsize{Rows: rows, Cols: cols})
	if errors.Is(err, os.ErrClosed) {
		return nil // it has ended: there is nothing left to resize
	}
	return err
}

// Signal signals the process's group, and the group in the foreground of its
// terminal, as a key on that would. A process that has ended is no error.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return nil
	}
	if p.tty != nil {
		if front := p.foreground(); front > 1 && front != p.pid && !p.passesTo(front) {
			_ = syscall.Kill(-front, sig)
		}
	}
	err := syscall.Kill(-p.pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// foreground returns the group that a key on the terminal would signal, or 0.
func (p *Process) foreground() int {
	front := 0
	raw, err := p.tty.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if n, err := unix.IoctlGetInt(int(fd), unix.TIOCGPGRP); err == nil {
			front = n
		}
	})
	return front
}

// Terminate kills the process and all its descendants with SIGKILL, and
// reports whether the process was running. What it wrote before is still
// delivered; what cannot be killed and holds its output is cut off.
//
// When the process has ended already, the descendants that still hold its
// output get leftoverTime to end in order, and are killed then.
func (p *Process) Terminate() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped && !p.over {
		if p.timer == nil {
			p.timer = time.AfterFunc(leftoverTime, p.kill)
		}
		return false
	}
	running := !p.reaped
	p.mu.Unlock()
	p.kill()
	p.mu.Lock()
	return running
}

// kill kills the process and its descendants now.
func (p *Process) kill() {
	p.killTree()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	if !p.over {
		p.timer = time.AfterFunc(cutTime, p.cutOff)
	}
}

// cutOff ends the streams, after what they hold at this moment.
func (p *Process) cutOff() {
	p.cut.Store(true)
	p.wakeStreams()
}

// wakeStreams has the stream goroutines look at the flags.
func (p *Process) wakeStreams() {
	for _, s := range p.streams {
		_ = s.file.SetReadDeadline(time.Unix(1, 0))
	}
}

// run starts the goroutines of the process.
func (p *Process) run(pidfd int) {
	wg := &p.group.s.wg
	var streams sync.WaitGroup
	for _, s := range p.streams {
		p.drained.Add(1)
		streams.Add(1)
		wg.Go(func() {
			defer streams.Done()
			p.routineStream(s)
		})
	}
	wg.Go(func() { p.routineWaiter(pidfd, &streams) })
}

// routineWaiter waits for the exit, tells it after all output that was
// written before it, and closes the process when its streams have ended.
func (p *Process) routineWaiter(pidfd int, streams *sync.WaitGroup) {
	code := p.group.s.reap(p, pidfd)
	p.wakeStreams()
	p.drained.Wait()

	<-p.gate
	judged := false
	if p.spec.Judge != nil {
		stdout, stderr := p.log.texts()
		judged = p.spec.Judge(code, stdout, stderr)
	}
	p.emit.Lock()
	p.sink.Exited(p.log.exit(code, judged), code, judged)
	p.emit.Unlock()

	streams.Wait()
	p.stdin.shut()
	p.cleanup()
	p.emit.Lock()
	p.sink.Closed(p.log.close())
	p.emit.Unlock()
	p.group.remove(p)
	close(p.finished)
}

// cleanup releases what the process has of the system.
func (p *Process) cleanup() {
	p.mu.Lock()
	p.over = true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	for _, s := range p.streams {
		_ = s.file.Close()
	}
	p.cg.remove()
}

// routineStream reads one stream to its end.
func (p *Process) routineStream(s stream) {
	draining := sync.OnceFunc(p.drained.Done)
	defer draining()
	r := &reader{p: p, stream: s}
	var err error
	if r.raw, err = s.file.SyscallConn(); err != nil {
		return
	}
	for {
		err := r.read()
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			// Woken up: by the exit or by a cut.
			_ = s.file.SetReadDeadline(time.Time{})
			if p.cut.Load() {
				_ = r.drain()
				return
			}
			if p.exiting.Load() {
				if errors.Is(r.drain(), io.EOF) {
					return
				}
				draining()
				if p.cut.Load() {
					return
				}
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
		n, readErr = readOnce(int(fd), b.data[:])
		if readErr == unix.EAGAIN {
			// Hold no buffer while waiting: there may be thousands of us.
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

// fill adds to a block what a terminal has besides: it hands out a page at a
// time, and every event costs more than a read. It never waits.
func (r *reader) fill(b *block, n int) int {
	if r.stream.name != PTY {
		return n
	}
	_ = r.raw.Control(func(fd uintptr) {
		for n < len(b.data) {
			m, err := readOnce(int(fd), b.data[n:])
			if err != nil || m == 0 {
				return // the next read meets it again
			}
			n += m
		}
	})
	return n
}

// readOnce reads without waiting.
func readOnce(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Read(fd, b)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// deliver numbers, retains and hands on one chunk.
func (r *reader) deliver(b *block, n int) {
	data, from := b.data[:n], b
	if n < keepWhole {
		data, from = append(make([]byte, 0, n), data...), nil
	}
	p := r.p
	<-p.gate
	p.emit.Lock()
	defer p.emit.Unlock()
	seq := p.log.output(r.stream.name, data, from)
	p.sink.Output(seq, r.stream.name, data)
}

// drain delivers what is in the stream at this moment and returns io.EOF when
// it has ended. It is called once the program has ended, so what the program
// wrote is there, except that a terminal may take drainTime to hand it over.
func (r *reader) drain() error {
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
		case errors.Is(err, unix.EAGAIN):
			if r.stream.name != PTY || !r.await() {
				return nil
			}
		case err != nil || n == 0:
			return io.EOF
		default:
			if left -= n; left <= 0 {
				// Somebody else may be writing on and on.
				return r.atEnd()
			}
		}
	}
}

// available counts what can be read.
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
	if e := r.raw.Control(func(fd uintptr) { n, err = readOnce(int(fd), b.data[:]) }); e != nil {
		return 0, e
	}
	if err == nil && n > 0 {
		r.deliver(b, n)
	}
	return n, err
}

// atEnd reports io.EOF when nobody holds the other end any more.
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

// await waits up to drainTime for more output or the end of a terminal.
func (r *reader) await() bool {
	ready := false
	_ = r.raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			n, err := unix.Poll(fds, int(drainTime/time.Millisecond))
			if err == unix.EINTR {
				continue
			}
			ready = err == nil && n > 0 && fds[0].Revents&unix.POLLNVAL == 0
			return
		}
	})
	return ready
}
