package process

import (
	"context"
	"errors"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// Sink receives the events of one process, one at a time and in the order of their numbers. Output
// may block. Meanwhile the process's output is not read, so a slow receiver slows the process. The
// chunk is valid only during the call. Output must return if its receiver is gone permanently.
type Sink interface {
	Output(seq uint64, s Stream, chunk []byte)
	// Exited reports how the process ended. Exit.Denied is the result of Spec.DetectDenial.
	Exited(seq uint64, e Exit)
	Closed(seq uint64)
}

// Process is one started process with its output and its descendants. Its
// methods may be called from any goroutine.
//
// A process is in one of three states. Running: the program runs. Exited: the program has ended,
// but another process may still hold its output. Closed: all output has ended, and the last event
// was delivered. A standby counts as exited once it has reported its exit code; Done waits until it
// has ended and is reaped. A process has one goroutine per stream, one that waits for the exit, and
// one that executes queued writes while there are any. All end before the process is closed.
type Process struct {
	group *Group
	spec  Spec
	sink  Sink
	pid   int
	log   eventLog
	win   window
	stdin stdin
	cg    cgroupDir
	// account is the cgroup that enforces the limits of the process; nil: it has no such cgroup.
	account *account
	// program is the program that Options.Launch has started; nil: the operating system has started it.
	program Program

	// gate delays events until OpenGate is called.
	gate     chan struct{}
	gateOnce sync.Once

	// emit is held while one event is numbered and delivered.
	emit sync.Mutex

	mu     sync.Mutex
	ended  bool        // its exit code is known
	reaped bool        // its pid may belong to another process; it has ended
	over   bool        // its descriptors are being closed
	timer  *time.Timer // kills the remaining descendants, or ends the streams
	cause  Cause       // why it is being killed; CauseExit if it is not

	startedAt time.Time
	killed    uint64 // Supervisor.kills before the start
	held      []Held
	limited   limited

	exiting  atomic.Bool // the program has ended; streams drain
	cut      atomic.Bool // streams end now
	drained  sync.WaitGroup
	streams  []stream
	tty      *os.File
	finished chan struct{}
}

// State is a snapshot of the state of a process.
type State struct {
	Exited   bool
	ExitCode *int
	Exit     *Exit // nil until it has exited
	Closed   bool
}

// Pid returns the process id, which is also its session and group id.
func (p *Process) Pid() int { return p.pid }

// WithPid calls f while the pid certainly belongs to this process, or returns an error if the
// process has ended. f must not block, because the end of the process waits for it.
func (p *Process) WithPid(f func(pid int) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return os.ErrProcessDone
	}
	return f(p.pid)
}

// isReaped reports whether the process was reaped, so that its pid may belong to another process.
func (p *Process) isReaped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reaped
}

// Done is closed when the process has closed and is reaped.
func (p *Process) Done() <-chan struct{} { return p.finished }

// Ack acknowledges the events up to and including number seq, which frees space in the window. Only
// the highest seq counts. A seq beyond the newest event also acknowledges future events. Without a
// window Ack does nothing.
func (p *Process) Ack(seq uint64) {
	if p.win.ack(seq) {
		p.wakeStreams()
	}
}

// unblockOutput opens the gate and acknowledges all events, so that the streams
// are read to their end.
func (p *Process) unblockOutput() {
	p.OpenGate()
	p.Ack(math.MaxUint64)
}

// OpenGate starts the delivery of events. Until then the output waits in the pipes.
func (p *Process) OpenGate() { p.gateOnce.Do(func() { close(p.gate) }) }

// Read returns retained output with a number above after (docs/spec/wire.md §4.4). It returns at
// least one chunk if there is any, and more as long as their total size is at most maxBytes. If
// there is no output and the process has neither exited nor closed since, it waits up to wait for
// one of these.
func (p *Process) Read(ctx context.Context, after uint64, maxBytes *uint64, wait time.Duration) (ReadResult, error) {
	return p.log.read(ctx, after, maxBytes, wait)
}

// State returns the state of the process.
func (p *Process) State() State { return p.log.state() }

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

// Signal signals the process group of the process, and the foreground group of its terminal, which
// a key such as Ctrl-C would signal. It returns nil for a process that has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil
	}
	if p.tty != nil {
		if front := p.foreground(); front > 1 && front != p.pid && !p.passesTo(front) {
			_ = syscall.Kill(-front, sig)
		}
	}
	if p.program != nil {
		return p.program.Signal(sig)
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

// Terminate kills the process and all its descendants with SIGKILL, and reports whether the process
// was running. Output that was written before is still delivered, as far as the window allows. If a
// process that cannot be killed holds the output open, the streams end after cutTime.
//
// If the process has already exited, the descendants that still hold its output open are killed
// after leftoverTime, unless they end by themselves.
func (p *Process) Terminate() bool {
	if p.exitedButOpen() {
		return false
	}
	running := p.setCause(CauseTerminated)
	p.kill()
	return running
}

// setCause records why the process is about to be killed, unless a cause is already set. It reports
// whether the process is running.
func (p *Process) setCause(c Cause) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	if p.cause == CauseExit {
		p.cause = c
	}
	return true
}

// exitedButOpen reports whether the process has exited and its streams are still open. If so, it
// schedules the remaining descendants to be killed after leftoverTime. It also returns true for a
// standby that has reported its exit code, has closed, and is about to end: such a standby has no
// descendants.
func (p *Process) exitedButOpen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over && !p.reaped {
		return true
	}
	if !p.ended || p.over {
		return false
	}
	if p.timer == nil {
		p.timer = time.AfterFunc(leftoverTime, p.kill)
	}
	return true
}

// kill kills the process and its descendants at once.
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

// cutOff ends the streams after the output that they contain now.
func (p *Process) cutOff() {
	p.cut.Store(true)
	p.wakeStreams()
}

// wakeStreams makes the stream goroutines check exiting, cut and the window.
func (p *Process) wakeStreams() {
	for _, s := range p.streams {
		_ = s.file.SetReadDeadline(time.Unix(1, 0))
	}
}

// run starts the goroutines of the process.
func (p *Process) run(pidfd int) {
	p.startLimits()
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

// routineWaiter waits for the exit, and reports it after all output that was written before it. It
// closes the process when its streams have ended.
func (p *Process) routineWaiter(pidfd int, streams *sync.WaitGroup) {
	end, reported := p.awaitReport()
	ended := make(chan struct{})
	if reported {
		p.group.s.wg.Go(func() { p.routineEnd(pidfd, ended) })
	} else {
		end = p.group.s.reap(p, pidfd)
		close(ended)
	}
	exit := p.exitOf(end)
	p.wakeStreams()
	p.drained.Wait()

	<-p.gate
	if p.spec.DetectDenial != nil {
		stdout, stderr := p.log.outputText()
		exit.Denied = p.spec.DetectDenial(exit.Code, stdout, stderr)
	}
	p.emit.Lock()
	p.sink.Exited(p.log.recordExit(exit), exit)
	p.emit.Unlock()

	streams.Wait()
	p.stdin.shut()
	p.setOver()
	p.emit.Lock()
	p.sink.Closed(p.log.close())
	p.emit.Unlock()
	// closeStreams runs while the sink sends the exit event, which takes about as long.
	p.closeStreams()
	if !reported {
		p.removeCgroup()
	}
	<-ended
	p.stopLimits()
	p.group.remove(p)
	close(p.finished)
}

// routineEnd reaps a process that has reported its exit code. It does not wait for the client to
// read the output, which may be much later.
func (p *Process) routineEnd(pidfd int, ended chan<- struct{}) {
	defer close(ended)
	p.group.s.reap(p, pidfd)
	p.removeCgroup()
	<-p.group.s.ending
}

// awaitReport waits until a standby has reported its exit code. It returns false if there is no
// report, or if maxEnding processes that have reported still exist. The caller then waits for the
// real end of the process. If it returns true, the caller starts routineEnd.
func (p *Process) awaitReport() (end ending, reported bool) {
	if end, reported = p.spec.Standby.awaitReport(); !reported {
		return end, false
	}
	select {
	case p.group.s.ending <- struct{}{}:
	default:
		return end, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.exiting.Store(true)
	return end, true
}

// setOver records that the process can no longer be signalled.
func (p *Process) setOver() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// closeStreams closes the process's descriptors.
func (p *Process) closeStreams() {
	for _, s := range p.streams {
		_ = s.file.Close()
	}
}
