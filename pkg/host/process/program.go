package process

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"
)

// Program is one program that Options.Launch has started, with all its descendants. Its
// methods may be called from any goroutine.
type Program interface {
	// Pid identifies the program; it is above 0.
	Pid() int
	// Ends returns this side's ends of the program's streams. Stdin is nil if the spec has no
	// PipeStdin. The Process closes the ends.
	Ends() (stdin, stdout, stderr File)
	// Wait waits for the program's end, and returns the exit code as a shell does: 128+n after
	// signal n. It is called once.
	Wait() (code int, signaled bool)
	// Signal returns nil for a program that has ended.
	Signal(sig syscall.Signal) error
	// Kill ends the program and its descendants. It does not wait.
	Kill()
}

// File is an end of a pipe, an *os.File with a non-blocking descriptor.
type File interface {
	io.WriteCloser
	SetReadDeadline(t time.Time) error
	SyscallConn() (syscall.RawConn, error)
}

// launch starts a program by Options.Launch and registers the process.
func (g *Group) launch(ctx context.Context, p *Process) error {
	if p.spec.TTY || len(p.spec.ExtraFiles) > 0 {
		return errors.New("programs that are launched elsewhere have neither a terminal nor further descriptors")
	}
	program, err := g.s.opts.Launch(ctx, &p.spec)
	if err != nil {
		return err
	}
	p.program, p.pid = program, program.Pid()
	stdin, stdout, stderr := program.Ends()
	p.stdin.file, p.stdin.wg = stdin, &g.s.wg
	p.streams = []stream{{Stdout, stdout}, {Stderr, stderr}}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.procs[p] = true
	if g.closed {
		// Close ran before the process was registered.
		p.unblockOutput()
		program.Kill()
	}
	return nil
}

// reapProgram waits for the end of a process that Options.Launch has started.
func (p *Process) reapProgram() ending {
	code, signaled := p.program.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended, p.reaped = true, true
	p.exiting.Store(true)
	return ending{code: code, signaled: signaled}
}
