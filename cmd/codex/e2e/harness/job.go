package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// job is one process, with the actions on it and the expected outcome.
type job struct {
	id       string
	argv     []string
	tty      bool
	stdin    bool
	out, err *Checked
	codes    []int // permitted exit codes
	started  atomic.Bool
	follow   follower
	// input writes the process's input while it is followed; nil: no input.
	input func(ctx context.Context, c *execclient.Client, p *execclient.Process) error
}

// run runs the job to its end. Errors of the client are wrapped.
func (j *job) run(ctx context.Context, c *execclient.Client) error {
	p, err := c.Start(ctx, execproto.StartParams{
		ProcessID: j.id, Argv: j.argv, Cwd: "file:///", Env: map[string]string{"PATH": "/usr/bin:/bin"},
		TTY: j.tty, PipeStdin: j.stdin && !j.tty,
	})
	if err != nil {
		return fmt.Errorf("%s: start: %w", j.id, err)
	}
	j.started.Store(true)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var feeding sync.WaitGroup
	var inputErr error
	if j.input != nil {
		feeding.Go(func() {
			if inputErr = j.input(ctx, c, p); inputErr != nil {
				cancel() // otherwise following it would not end
			}
		})
	}
	state, err := j.follow(ctx, p, j.out, j.err)
	if err != nil {
		cancel()
	}
	feeding.Wait()
	if inputErr != nil && !(errors.Is(inputErr, context.Canceled) && err != nil) {
		return fmt.Errorf("%s: input: %w", j.id, inputErr)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", j.id, err)
	}
	if !slices.Contains(j.codes, state.Code) {
		return fmt.Errorf("%s: exit code %d, not %d", j.id, state.Code, j.codes)
	}
	if err := errors.Join(j.out.Complete(), j.err.Complete()); err != nil {
		return fmt.Errorf("%s: %w", j.id, &shortError{err})
	}
	return nil
}

// shortError is the error for output whose end is missing without a report.
type shortError struct{ error }

// String describes the progress of the job.
func (j *job) String() string {
	return fmt.Sprintf("%s (started: %v, terminal: %v, %v, %v)", j.id, j.started.Load(), j.tty, j.out, j.err)
}

// jobs creates the jobs of a run.
type jobs struct {
	rng   *rand.Rand
	emit  string // path of the program emit
	seed  uint64
	count int
}

// newJob creates a job that runs emit with an output of its own.
func (m *jobs) newJob(kind string, stdout, stderr int64) *job {
	m.count++
	j := &job{id: fmt.Sprintf("%s-%d", kind, m.count), tty: m.rng.IntN(2) == 0, codes: []int{m.rng.IntN(99)}}
	if j.tty {
		stderr = 0
	}
	seed := m.bytesSeed()
	j.out, j.err = Expect("stdout", seed, 1, stdout), Expect("stderr", seed, 2, stderr)
	j.follow = m.follower(stdout + stderr)
	return j
}

// bytesSeed is the seed of the output of the newest job.
func (m *jobs) bytesSeed() uint64 { return m.seed<<8 | uint64(m.count) }

// printer returns a job that writes and exits.
func (m *jobs) printer(kind string, size int64) *job {
	j := m.newJob(kind, size, m.rng.Int64N(size/8+1))
	j.argv = []string{m.emit, "print", decimal(m.bytesSeed()), decimal(j.out.length), decimal(j.err.length), decimal(j.codes[0])}
	return j
}

// gated returns a job that writes, and exits when a connection to addr ends.
func (m *jobs) gated(addr string) *job {
	j := m.newJob("gated", m.rng.Int64N(100_000), 0)
	j.argv = []string{m.emit, "await", addr, decimal(m.bytesSeed()), decimal(j.out.length), decimal(j.codes[0])}
	return j
}

// echo returns a job that writes back its input. It ends after size bytes or, with untilEOF, at the
// end of its input.
func (m *jobs) echo(size int64, untilEOF bool) *job {
	j := m.newJob("echo", size, 0)
	j.stdin = true
	data := RandomBytes(m.bytesSeed(), 1)
	most := int(size/50) + m.rng.IntN(20_000) // each write takes a round trip
	random := rand.New(rand.NewPCG(m.bytesSeed(), 3))
	ready := make(chan struct{})
	if untilEOF && !j.tty {
		j.argv, j.codes = []string{"cat"}, []int{0}
		close(ready)
	} else {
		untilEOF = false
		j.argv = []string{m.emit, "echo", decimal(size), decimal(j.codes[0])}
		follow := j.follow
		j.follow = func(ctx context.Context, p *execclient.Process, out, errs io.Writer) (execclient.ExitState, error) {
			return follow(ctx, p, &greeted{ready: ready, to: out}, errs)
		}
	}
	j.input = func(ctx context.Context, _ *execclient.Client, p *execclient.Process) error {
		select {
		case <-ready:
		case <-ctx.Done():
			return ctx.Err()
		}
		for left := size; left > 0; {
			chunk := make([]byte, min(left, 1+int64(random.IntN(most))))
			_, _ = data.Read(chunk) // it never fails
			left -= int64(len(chunk))
			status, err := p.Write(ctx, chunk)
			switch {
			case err != nil:
				return fmt.Errorf("write %d bytes, %d before the end: %w", len(chunk), left, err)
			case status != execproto.WriteAccepted:
				return fmt.Errorf("write %d bytes, %d before the end: %s", len(chunk), left, status)
			}
		}
		if untilEOF {
			return p.CloseStdin(ctx)
		}
		return nil
	}
	return j
}

// greeted is a writer that expects a greeting as its first byte.
type greeted struct {
	ready chan struct{}
	to    io.Writer
	past  bool
}

func (g *greeted) Write(b []byte) (int, error) {
	if g.past || len(b) == 0 {
		return g.to.Write(b)
	}
	g.past = true
	close(g.ready)
	n, err := g.to.Write(b[1:])
	return n + 1, err
}

func decimal[N int | int64 | uint64](n N) string { return strconv.FormatInt(int64(n), 10) }

// follower follows a process to its end, in one of the ways that the client
// offers, and writes the output.
type follower func(ctx context.Context, p *execclient.Process, out, errs io.Writer) (execclient.ExitState, error)

// follower chooses a way to follow. If the server retains all output until the end, the job can
// also be followed late.
func (m *jobs) follower(size int64) follower {
	const retained = 512 << 10
	ways := []follower{followEvents, followStream, followReaders}
	if size <= retained {
		ways = append(ways, followLate)
	}
	return ways[m.rng.IntN(len(ways))]
}

// followEvents also checks the sequence numbers and the kinds of events.
func followEvents(ctx context.Context, p *execclient.Process, out, errs io.Writer) (execclient.ExitState, error) {
	state := execclient.ExitState{Code: -1}
	last, exited, closed := uint64(0), false, false
	for e, err := range p.Events(ctx) {
		switch {
		case err != nil:
			return state, err
		case e.Seq != last+1 || closed:
			return state, fmt.Errorf("event %d came after %d, closed: %v", e.Seq, last, closed)
		}
		last = e.Seq
		switch e.Kind {
		case execclient.Output:
			to := out
			if e.Stream == execproto.Stderr {
				to = errs
			}
			if _, err := to.Write(e.Data); err != nil {
				return state, err
			}
		case execclient.Exited:
			if exited {
				return state, errors.New("it exited twice")
			}
			exited, state.Code = true, e.ExitCode
			state.Cause, state.Resources = e.Cause, e.Resources
		case execclient.Closed:
			closed = true
		}
	}
	if !exited || !closed {
		return state, fmt.Errorf("the events end after %d, exited: %v, closed: %v", last, exited, closed)
	}
	return state, nil
}

func followStream(ctx context.Context, p *execclient.Process, out, errs io.Writer) (execclient.ExitState, error) {
	return p.Stream(ctx, out, errs)
}

// followReaders uses both readers at the same time.
func followReaders(ctx context.Context, p *execclient.Process, out, errs io.Writer) (execclient.ExitState, error) {
	var reading sync.WaitGroup
	var outErr, errErr error
	stdout, stderr := p.Stdout(ctx), p.Stderr(ctx)
	reading.Go(func() { _, outErr = io.Copy(out, stdout) })
	reading.Go(func() { _, errErr = io.Copy(errs, stderr) })
	state, err := p.WaitClosed(ctx)
	reading.Wait()
	return state, errors.Join(err, outErr, errErr)
}

// followLate follows the process twice: while it runs, and again after its end.
func followLate(ctx context.Context, p *execclient.Process, out, errs io.Writer) (execclient.ExitState, error) {
	var first, second int64
	state, err := followEvents(ctx, p, io.MultiWriter(out, (*counter)(&first)), errs)
	if err != nil {
		return state, err
	}
	again, err := p.Stream(ctx, (*counter)(&second), io.Discard)
	switch {
	case err != nil:
		return state, fmt.Errorf("the second time: %w", err)
	case again != state || first != second:
		return state, fmt.Errorf("the second time %d bytes and %+v, the first time %d and %+v", second, again, first, state)
	}
	waited, err := p.Wait(ctx)
	if err == nil && waited != state {
		err = fmt.Errorf("waiting gave %+v, the events %+v", waited, state)
	}
	return state, err
}

// counter is a writer that counts bytes.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// idle returns a job that is killed when the others have done enough, and exits with one of codes.
func (m *jobs) idle(enough <-chan struct{}, codes []int) *job {
	j := m.newJob("idle", 0, 0)
	j.argv, j.codes = []string{m.emit, "idle"}, codes
	j.input = func(ctx context.Context, c *execclient.Client, p *execclient.Process) error {
		select {
		case <-enough:
		case <-ctx.Done():
			return ctx.Err()
		}
		// If the connection is lost, the client does not know whether a terminate was carried out.
		// A second one does no harm.
		for {
			_, err := p.Terminate(ctx)
			if !errors.Is(err, execclient.ErrClosed) || c.State() == execclient.Failed {
				return err
			}
		}
	}
	return j
}

// Signalling is a writer that sends a signal on a channel for each write.
type Signalling struct {
	Written chan struct{} // has capacity 1
	To      io.Writer
}

func (s *Signalling) Write(b []byte) (int, error) {
	n, err := s.To.Write(b)
	if err == nil {
		notify(s.Written)
	}
	return n, err
}

// notify wakes the goroutine that waits on a channel of capacity 1.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
