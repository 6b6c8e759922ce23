package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"codex.internal/pkg/host/process"
	"golang.org/x/sys/unix"
)

// pipe is a kernel pipe whose ends never block. Goroutines wait for it within the bubble, where the
// clock can advance meanwhile.
type pipe struct {
	mu      sync.Mutex
	changed chan struct{}
	fds     [2]int // descriptors; -1: closed
}

func newPipe(size int) (*pipe, error) {
	p := &pipe{changed: make(chan struct{})}
	if err := unix.Pipe2(p.fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, err
	}
	_, err := unix.FcntlInt(uintptr(p.fds[0]), unix.F_SETPIPE_SZ, size)
	return p, err
}

// change wakes all waiting goroutines. The caller must hold the lock.
func (p *pipe) change() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// pipeEnd is one end of a pipe: 0 reads, 1 writes. It implements process.File.
type pipeEnd struct {
	*pipe
	side int

	limit time.Time // deadline of reads; the pipe's lock guards it
}

// rawEnd implements syscall.RawConn for an end.
type rawEnd struct{ *pipeEnd }

func (e rawEnd) Read(f func(uintptr) bool) error  { return e.until(f) }
func (e rawEnd) Write(f func(uintptr) bool) error { return e.until(f) }

func (e rawEnd) Control(f func(uintptr)) error {
	return e.until(func(fd uintptr) bool { f(fd); return true })
}

func (e *pipeEnd) SyscallConn() (syscall.RawConn, error) { return rawEnd{e}, nil }

func (e *pipeEnd) SetReadDeadline(t time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.limit = t
	e.change()
	return nil
}

// until calls f after each event in the pipe until f returns true.
func (e *pipeEnd) until(f func(uintptr) bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		if e.fds[e.side] < 0 {
			return os.ErrClosed
		}
		if passed(e.limit) {
			return os.ErrDeadlineExceeded
		}
		if f(uintptr(e.fds[e.side])) {
			e.change()
			return nil
		}
		changed := e.changed
		e.mu.Unlock()
		<-changed
		e.mu.Lock()
	}
}

// read returns available data, or waits for data. It returns 0 at the end.
func (e *pipeEnd) read(b []byte) (n int, err error) {
	e2 := e.until(func(fd uintptr) bool {
		n, err = unix.Read(int(fd), b)
		return !errors.Is(err, unix.EAGAIN)
	})
	return max(n, 0), errors.Join(err, e2)
}

// Write writes all data. It waits until there is space.
func (e *pipeEnd) Write(b []byte) (int, error) {
	written := 0
	for written < len(b) {
		n, err := 0, error(nil)
		if e := e.until(func(fd uintptr) bool {
			n, err = unix.Write(int(fd), b[written:])
			return !errors.Is(err, unix.EAGAIN)
		}); e != nil {
			return written, e
		}
		if err != nil {
			return written, err
		}
		written += n
	}
	return written, nil
}

func (e *pipeEnd) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fds[e.side] < 0 {
		return os.ErrClosed
	}
	err := unix.Close(e.fds[e.side])
	e.fds[e.side] = -1
	e.change()
	return err
}

// machine starts programs that exist only in the simulation.
type machine struct {
	seed uint64

	mu       sync.Mutex
	programs []*program
}

// firstPid is greater than every pid that the kernel assigns, so no signal can reach a real process.
const firstPid = 1 << 30

// launch implements process.Options.Launch. It may be slow, and may fail.
func (m *machine) launch(ctx context.Context, spec *process.Spec) (process.Program, error) {
	m.mu.Lock()
	number := len(m.programs)
	p := &program{
		pid: firstPid + number, rng: dice(m.seed, "program", number), name: spec.Argv[len(spec.Argv)-1],
		quit: make(chan struct{}), over: make(chan struct{}),
	}
	m.programs = append(m.programs, p)
	m.mu.Unlock()
	if err := sleep(ctx, between(p.rng, time.Microsecond, 50*time.Millisecond)); err != nil {
		return nil, err
	}
	for i := range p.pipes {
		var err error
		if p.pipes[i], err = newPipe([]int{4 << 10, 16 << 10, 64 << 10}[p.rng.IntN(3)]); err != nil {
			return nil, err
		}
	}
	p.wg.Go(p.routineInput)
	p.wg.Go(func() { p.routineOutput(1, dice(m.seed, "stdout", number)) })
	p.wg.Go(func() { p.routineOutput(2, dice(m.seed, "stderr", number)) })
	return p, nil
}

// named returns the programs with this name.
func (m *machine) named(name string) []*program {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.programs), func(p *program) bool { return p.name != name })
}

// program prints numbered lines on both streams and handles the lines that it reads. The line
// "quit", or the end of the input, makes it exit with code 7.
type program struct {
	pid   int
	rng   *rand.Rand
	name  string
	pipes [3]*pipe // stdin, stdout, stderr
	wg    sync.WaitGroup
	quit  chan struct{} // closed when it must print no more
	over  chan struct{} // closed when the program was killed

	mu      sync.Mutex
	stopped bool
	killed  bool
	endedAt time.Time
	applied []string
	said    [3][]byte
}

func (p *program) Pid() int { return p.pid }

func (p *program) Ends() (stdin, stdout, stderr process.File) {
	return &pipeEnd{pipe: p.pipes[0], side: 1}, &pipeEnd{pipe: p.pipes[1]}, &pipeEnd{pipe: p.pipes[2]}
}

func (p *program) Signal(sig syscall.Signal) error {
	if sig == syscall.SIGKILL || sig == syscall.SIGTERM {
		p.Kill()
	}
	return nil
}

func (p *program) Kill() {
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return
	}
	p.killed = true
	close(p.over)
	_ = (&pipeEnd{pipe: p.pipes[0]}).Close()
	_ = (&pipeEnd{pipe: p.pipes[1], side: 1}).Close()
	_ = (&pipeEnd{pipe: p.pipes[2], side: 1}).Close()
}

// stop ends the output. It may be called more than once.
func (p *program) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped {
		p.stopped = true
		close(p.quit)
	}
}

func (p *program) Wait() (code int, signaled bool) {
	p.wg.Wait()
	p.mu.Lock()
	killed := p.killed
	p.endedAt = time.Now()
	p.mu.Unlock()
	_ = (&pipeEnd{pipe: p.pipes[0]}).Close()
	if killed {
		return 128 + int(syscall.SIGKILL), true
	}
	return exitCode, false
}

const exitCode = 7

// pause waits. It returns false if the program is killed meanwhile.
func (p *program) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.over:
		return false
	}
}

func (p *program) routineInput() {
	defer p.stop()
	in := &pipeEnd{pipe: p.pipes[0]}
	var line []byte
	buf := make([]byte, 1+p.rng.IntN(9000))
	pauses := 0 // bounds the pauses: a process that reads few bytes at a time must not take hours
	for {
		if pauses < 30 && p.rng.IntN(20) == 0 {
			if pauses++; !p.pause(between(p.rng, time.Millisecond, 2*time.Second)) {
				return
			}
		}
		n, err := in.read(buf)
		if n == 0 || err != nil {
			return
		}
		line = append(line, buf[:n]...)
		for {
			text, rest, found := bytes.Cut(line, []byte{'\n'})
			if !found {
				break
			}
			line = rest
			if string(text) == "quit" {
				return
			}
			id, _, _ := bytes.Cut(text, []byte{' '})
			p.mu.Lock()
			p.applied = append(p.applied, string(id))
			p.mu.Unlock()
		}
	}
}

func (p *program) routineOutput(stream int, rng *rand.Rand) {
	out := &pipeEnd{pipe: p.pipes[stream], side: 1}
	defer out.Close()
	for n := 0; ; n++ {
		text := fmt.Appendf(nil, "%d.%d %s\n", stream, n, bytes.Repeat([]byte{'x'}, rng.IntN(1+rng.IntN(3000))))
		if n >= 400 { // the retained output must contain all lines, because a client may read it from the beginning
			<-p.quit
			return
		}
		p.mu.Lock()
		p.said[stream] = append(p.said[stream], text...)
		at := len(p.said[stream]) - len(text)
		p.mu.Unlock()
		if done, err := out.Write(text); err != nil {
			p.mu.Lock()
			p.said[stream] = p.said[stream][:at+done]
			p.mu.Unlock()
			return
		}
		t := time.NewTimer(between(rng, time.Microsecond, time.Duration(1+rng.Int64N(int64(60*time.Millisecond)))+time.Microsecond))
		select {
		case <-t.C:
		case <-p.quit:
			t.Stop()
			return
		}
	}
}

// forgotten reports whether a server may have forgotten the program (docs/spec/wire.md §4.4).
func (p *program) forgotten() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.endedAt.IsZero() && time.Since(p.endedAt) >= closedReadable
}

// closedReadable is the time for which a server retains the output of an ended process.
const closedReadable = 30 * time.Second

// inputs returns the lines that the program has applied, in their order.
func (p *program) inputs() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.applied)
}

// output returns the program's output on a stream.
func (p *program) output(stream int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.said[stream])
}
