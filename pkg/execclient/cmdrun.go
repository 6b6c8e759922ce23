package execclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// cmdRun is a command between Start and the end of Wait, which waits for its goroutines:
// one for each stream that is copied, and routineKill.
type cmdRun struct {
	c    *Cmd
	ctx  context.Context // for copies, pipes and Wait
	stop context.CancelFunc

	copies sync.WaitGroup
	killer sync.WaitGroup
	ended  chan struct{} // closed by Wait
	killed bool          // set before killer ends: the context has ended the command

	mu      sync.Mutex
	copyErr error // the first error
}

// startRun starts the goroutines of a command that has been started. They follow its output
// from here on, so that none of it counts as unread.
func startRun(c *Cmd) *cmdRun {
	r := &cmdRun{c: c, ended: make(chan struct{})}
	r.ctx, r.stop = context.WithCancel(context.Background())
	if c.in != nil {
		c.in.w = cmdStdin{r}
		close(c.in.opened)
	}
	if c.Stdin != nil {
		r.startStdin()
	}
	if c.out != nil {
		c.out.r = c.Process.Stdout(r.ctx)
		close(c.out.opened)
	}
	if c.err != nil {
		c.err.r = c.Process.Stderr(r.ctx)
		close(c.err.opened)
	}
	switch {
	case c.Stdout != nil && same(c.Stdout, c.Stderr):
		r.copyOutput(c.Stdout, c.Process.output(r.ctx, nil))
	default:
		if c.Stdout != nil {
			r.copyOutput(c.Stdout, c.Process.Stdout(r.ctx))
		}
		if c.Stderr != nil {
			r.copyOutput(c.Stderr, c.Process.Stderr(r.ctx))
		}
	}
	if c.ctx.Done() != nil {
		r.killer.Go(r.routineKill)
	}
	return r
}

// same reports whether two writers are equal. Writers of a type that cannot be compared are
// not.
func same(a, b io.Writer) (equal bool) {
	defer func() { _ = recover() }()
	return a == b
}

// copyOutput copies one stream in a goroutine. If w fails, the rest of this stream alone is
// dropped.
func (r *cmdRun) copyOutput(w io.Writer, from io.ReadCloser) {
	r.copies.Go(func() {
		defer from.Close()
		if _, err := io.Copy(w, from); err != nil {
			r.keep(fmt.Errorf("copy the command's output: %w", err))
		}
	})
}

// keep stores the first error of a copy.
func (r *cmdRun) keep(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.copyErr == nil {
		r.copyErr = err
	}
}

// startStdin copies Stdin in a goroutine. Wait does not wait for a copy from a file: the file
// may be a terminal on which nobody types, and os/exec would have passed it to the command.
func (r *cmdRun) startStdin() {
	if _, isFile := r.c.Stdin.(*os.File); isFile {
		go r.copyStdin()
		return
	}
	r.copies.Go(r.copyStdin)
}

// copyStdin copies Stdin up to its end or an error, and ends the command's input.
func (r *cmdRun) copyStdin() {
	in := cmdStdin{r}
	_, err := io.CopyBuffer(in, r.c.Stdin, make([]byte, stdinChunk))
	if err = ignoreEnded(err); err != nil && r.ctx.Err() == nil {
		r.keep(err) // stored before the command sees the end of its input
	}
	err = in.Close()
	if errors.Is(err, ErrNoCloseStdin) {
		r.c.client.log.Warn("this server cannot end a command's input", "process", r.c.Process.ID())
		return
	}
	if err != nil && r.ctx.Err() == nil {
		r.keep(err)
	}
}

// ignoreEnded ignores errors that only mean that the command does not read any more, as in
// a shell pipeline.
func ignoreEnded(err error) error {
	if errors.Is(err, ErrStdinClosed) || errors.Is(err, ErrUnknownProcess) {
		return nil
	}
	return err
}

// cmdStdin is the input of a running command.
type cmdStdin struct{ r *cmdRun }

func (s cmdStdin) Write(b []byte) (int, error) { return s.r.c.Process.Stdin(s.r.ctx).Write(b) }

// Close ends the input. If the server cannot do that, a terminal gets the end-of-file
// character, and for a pipe the error is ErrNoCloseStdin.
func (s cmdStdin) Close() error {
	err := s.r.c.Process.CloseStdin(s.r.ctx)
	if errors.Is(err, ErrNoCloseStdin) && s.r.c.TTY {
		_, err = s.Write([]byte{endOfTransmission})
	}
	return ignoreEnded(err)
}

// endOfTransmission is the end-of-file character of terminals.
const endOfTransmission = 0x04

// routineKill kills the command with its descendants when its context ends. If the server
// then does not report the end within killTime, it ends the copies and Wait.
func (r *cmdRun) routineKill() {
	select {
	case <-r.ended:
		return
	case <-r.c.ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), killTime)
	defer cancel()
	running, err := r.c.Process.Terminate(ctx)
	if err == nil && !running && r.c.Process.hasClosed() {
		return // it had ended by itself, and no descendant held its output open
	}
	r.killed = true
	select {
	case <-r.ended:
	case <-ctx.Done():
		r.stop()
	}
}

// hasClosed reports whether the process's last event has arrived.
func (p *Process) hasClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// Wait waits until a started command has ended and its input and output are copied. As with
// os/exec, Wait also waits for descendants that hold the output open, for a Read of Stdin
// unless it is an *os.File, and for a Write of Stdout and Stderr.
//
// The error is nil if the command ended with 0 and all was copied. It is an *ExitError if
// the command ended with another code, the context's error if the context ended the command,
// or else the error of a copy. If the end of the command is unknown because the connection
// was lost permanently, the error gives that reason.
func (c *Cmd) Wait() error {
	switch {
	case c.Process == nil:
		return errors.New("execclient: not started")
	case c.waited:
		return errors.New("execclient: Wait was already called")
	}
	c.waited = true
	return c.run.wait()
}

func (r *cmdRun) wait() error {
	state, err := r.c.Process.Wait(r.ctx)
	if err != nil {
		r.stop()
	} else {
		r.c.ExitState = &state
	}
	r.copies.Wait()
	close(r.ended)
	r.killer.Wait()
	r.c.closePipes()
	r.stop()
	r.c.Process.Release()
	var cause error
	if r.killed {
		cause = r.c.ctx.Err()
	}
	switch {
	case err != nil && cause != nil:
		return fmt.Errorf("%w; execclient: it is unknown how the command ended: %w", cause, err)
	case err != nil:
		return err
	case state.Code != 0:
		return &ExitError{ExitState: state, cause: cause}
	case cause != nil:
		return cause
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.copyErr
}
