package execclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"codex.internal/pkg/execproto"
)

// ErrWaitDelay is what Cmd.Wait returns when the command ended well but its
// input or output was still being copied when Cmd.WaitDelay was over.
var ErrWaitDelay = errors.New("execclient: WaitDelay expired before I/O complete")

// cmdRun is a command from Start to the end of Wait. Its goroutines are
// routineEvents, routineContext and one for each stream that is copied; Wait
// waits for all of them, except for one that is stuck in a Read or Write of
// the caller's.
type cmdRun struct {
	c        *Cmd
	p        *Process
	out, err *outputPipe // nil: dropped

	ctx  context.Context // of events and stdin
	stop context.CancelFunc
	// patience ends when the server has not told the end of the command for
	// too long.
	patience context.Context
	giveUp   context.CancelFunc

	copying  sync.WaitGroup
	copied   chan struct{} // closed when all copying has ended
	cutOff   chan struct{} // closed when copying is not waited for any more
	cutOnce  sync.Once
	finished chan struct{} // closed by Wait
	others   sync.WaitGroup

	mu       sync.Mutex
	copyErr  error         // the first
	exited   bool          // Wait knows how the command ended
	canceled chan struct{} // closed after Cancel; nil: it is not called
	cause    error         // why the command was ended; set before canceled closes
}

// startRun starts the goroutines of a command that has been started.
func startRun(c *Cmd) *cmdRun {
	r := &cmdRun{
		c: c, p: c.Process, out: c.out, err: c.err,
		copied: make(chan struct{}), cutOff: make(chan struct{}), finished: make(chan struct{}),
	}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.patience, r.giveUp = context.WithCancel(context.Background())
	if c.in != nil {
		c.in.open(&cmdStdin{r})
	}
	if c.Stdin != nil {
		r.startStdin()
	}
	if c.Stdout != nil {
		r.out = c.newOutputPipe()
		r.copy(func() error { return r.out.copyTo(c.Stdout, "stdout") })
	}
	switch {
	case c.Stderr == nil:
	case c.Stdout != nil && same(c.Stdout, c.Stderr):
		r.err = r.out
	default:
		r.err = c.newOutputPipe()
		r.copy(func() error { return r.err.copyTo(c.Stderr, "stderr") })
	}
	// From here on, so that no output counts as unwanted.
	events := r.p.follow(0, nil)
	r.others.Go(func() { r.routineEvents(events) })
	go func() { // awaitCopies waits for it
		r.copying.Wait()
		close(r.copied)
	}()
	if c.ctx != nil && c.ctx.Done() != nil {
		r.others.Go(r.routineContext)
	}
	return r
}

// same reports whether two writers are equal. Those that cannot be compared
// are not.
func same(a, b io.Writer) (equal bool) {
	defer func() { _ = recover() }()
	return a == b
}

// copy runs f, whose error is Wait's, in a goroutine that Wait waits for.
func (r *cmdRun) copy(f func() error) {
	r.copying.Go(func() { r.keep(f()) })
}

// keep remembers the first error of copying.
func (r *cmdRun) keep(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.copyErr == nil {
		r.copyErr = err
	}
}

// startStdin copies Stdin. A file, which may be a terminal on which nobody
// types, is not waited for: os/exec would have given it to the command.
func (r *cmdRun) startStdin() {
	if _, ok := r.c.Stdin.(*os.File); ok {
		go func() { r.keep(r.copyStdin()) }()
		return
	}
	r.copy(r.copyStdin)
}

// copyStdin copies Stdin to its end, or to its error, and ends the command's
// input.
func (r *cmdRun) copyStdin() error {
	in := &cmdStdin{r}
	_, err := io.CopyBuffer(in, r.c.Stdin, make([]byte, stdinChunk))
	err = ignoreEnded(err)
	end := in.Close()
	if errors.Is(end, ErrNoCloseStdin) {
		r.c.client.log.Warn("this server cannot end a command's input", "process", r.p.ID())
		end = nil
	}
	if err == nil {
		err = end
	}
	if r.ctx.Err() != nil && errors.Is(err, r.ctx.Err()) {
		return nil // Wait ended it
	}
	return err
}

// ignoreEnded drops errors that say only that the command reads no more, as a
// shell does in a pipeline.
func ignoreEnded(err error) error {
	if errors.Is(err, ErrStdinClosed) || errors.Is(err, ErrUnknownProcess) {
		return nil
	}
	return err
}

// cmdStdin is the input of a running command.
type cmdStdin struct{ r *cmdRun }

func (s *cmdStdin) Write(b []byte) (int, error) { return s.r.p.Stdin(s.r.ctx).Write(b) }

// Close ends the input. Where the server cannot do it a terminal gets the
// character that means it; for a pipe there is ErrNoCloseStdin.
func (s *cmdStdin) Close() error {
	err := s.r.p.CloseStdin(s.r.ctx)
	if errors.Is(err, ErrNoCloseStdin) && s.r.c.TTY {
		_, err = s.Write([]byte{endOfTransmission})
	}
	return ignoreEnded(err)
}

// endOfTransmission is what terminals take for the end of the input.
const endOfTransmission = 0x04

// routineEvents distributes the output.
func (r *cmdRun) routineEvents(f *follower) {
	defer f.stop()
	e, err := f.next(r.ctx)
	for ; err == nil; e, err = f.next(r.ctx) {
		to := r.out
		if e.Stream == execproto.Stderr {
			to = r.err
		}
		if e.Kind == Output && to != nil {
			to.put(e.Data)
		}
	}
	for _, pipe := range r.pipes() {
		pipe.finish(err)
	}
}

// pipes are those that carry output.
func (r *cmdRun) pipes() []*outputPipe {
	return slices.DeleteFunc([]*outputPipe{r.out, r.err}, func(p *outputPipe) bool { return p == nil })
}

// cut ends the copying, whether all has come or not.
func (r *cmdRun) cut() {
	r.cutOnce.Do(func() {
		close(r.cutOff)
		r.stop()
		for _, pipe := range r.pipes() {
			_ = pipe.Close()
		}
	})
}

// kill kills the command with its descendants. It is what CommandContext makes
// Cancel do. A command that has ended is done when its output has, too: until
// then descendants hold that open.
func (c *Cmd) kill() error {
	ctx, cancel := context.WithTimeout(context.Background(), killTime)
	defer cancel()
	running, err := c.Process.Terminate(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("kill %s: %w", c.Path, err)
	case !running && c.Process.hasClosed():
		return os.ErrProcessDone
	}
	return nil
}

// hasClosed reports whether the process's last event has come.
func (p *Process) hasClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// routineContext cancels the command when its context ends, and kills it when
// that was of no use for WaitDelay.
func (r *cmdRun) routineContext() {
	select {
	case <-r.finished:
		return
	case <-r.c.ctx.Done():
	}
	r.cancel()
	delay := r.c.WaitDelay
	switch {
	case delay < 0:
		return
	case delay == 0:
		delay = DefaultWaitDelay
	}
	if r.finishedWithin(delay) {
		return
	}
	_ = r.c.kill() // what is left to be known tells Process.Wait
	r.cut()
	if !r.finishedWithin(killTime) {
		r.giveUp()
	}
}

func (r *cmdRun) finishedWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.finished:
		return true
	case <-timer.C:
		return false
	}
}

// cancel calls Cancel. If the command has ended its descendants, which hold
// its output open, are killed instead.
func (r *cmdRun) cancel() {
	r.mu.Lock()
	exited := r.exited
	r.canceled = make(chan struct{})
	r.mu.Unlock()
	defer close(r.canceled)
	if exited {
		_ = r.c.kill()
		r.cause = r.c.ctx.Err()
		return
	}
	if r.c.Cancel == nil {
		return
	}
	err := r.c.Cancel()
	switch {
	case err == nil:
		r.cause = r.c.ctx.Err()
	case !errors.Is(err, os.ErrProcessDone):
		r.cause = fmt.Errorf("%w; execclient: canceling Cmd: %w", r.c.ctx.Err(), err)
	}
}

// Wait waits for a started command to end and for its input and output to be
// copied. The error is nil if it ended with 0 and all was copied, an
// *ExitError if it ended with something else, the context's error if that
// ended it, ErrWaitDelay, the error of a copy, or why the command's end is not
// known: that of the connection.
//
// A Stdin that is an *os.File is not waited for; what is read from it after
// the command's end is lost. Nor is, once WaitDelay is over, a Read of Stdin
// or a Write of Stdout or Stderr that does not return.
func (c *Cmd) Wait() error {
	switch {
	case c.Process == nil:
		return errors.New("execclient: not started")
	case c.waited:
		return errors.New("execclient: Wait was already called")
	}
	c.waited = true
	r := c.run
	defer r.end()
	state, err := r.awaitExit()
	if err == nil {
		c.ExitState = &state
	}
	copyErr := r.awaitCopies(err == nil)
	cause := r.canceledBy()
	switch {
	case err != nil && cause != nil:
		return fmt.Errorf("%w; execclient: the end of the command is not known: %w", cause, err)
	case err != nil:
		return err
	case state.Code != 0:
		return &ExitError{ExitState: state, cause: cause}
	case cause != nil:
		return cause
	default:
		return copyErr
	}
}

// awaitExit waits until the command has ended.
func (r *cmdRun) awaitExit() (ExitState, error) {
	state, err := r.p.Wait(r.patience)
	r.mu.Lock()
	r.exited = true
	r.mu.Unlock()
	return state, err
}

// canceledBy is why the context ended the command; nil if it did not. A Cancel
// that is being called is waited for.
func (r *cmdRun) canceledBy() error {
	r.mu.Lock()
	canceled := r.canceled
	r.mu.Unlock()
	if canceled == nil {
		return nil
	}
	<-canceled
	return r.cause
}

// awaitCopies waits for the copying, which is cut off at once if the end of
// the command is not known.
func (r *cmdRun) awaitCopies(known bool) error {
	var over <-chan time.Time
	if r.c.WaitDelay > 0 {
		timer := time.NewTimer(r.c.WaitDelay)
		defer timer.Stop()
		over = timer.C
	}
	if known {
		select {
		case <-r.copied:
			return r.firstCopyErr()
		case <-r.cutOff:
		case <-over:
		}
	}
	r.cut()
	// The goroutines that waited for the command end now.
	grace := time.NewTimer(copyGrace)
	defer grace.Stop()
	select {
	case <-r.copied:
	case <-grace.C:
	}
	return ErrWaitDelay
}

func (r *cmdRun) firstCopyErr() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.copyErr
}

// end lets go of everything.
func (r *cmdRun) end() {
	close(r.finished)
	r.cut()
	r.giveUp()
	r.c.closePipes()
	r.others.Wait()
	r.p.Release()
}
