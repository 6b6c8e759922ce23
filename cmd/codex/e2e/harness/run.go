package harness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/testutil/faultproxy"
)

// runTime bounds one run. It is far more than the 25 s for which the client tries to recover.
const runTime = 90 * time.Second

// mostFaults is more than the faults of any run.
const mostFaults = 32

// RecoverySetup is the common setup of a suite's runs.
type RecoverySetup struct {
	Target string           // HOST:PORT of the server
	Shape  faultproxy.Shape // the faults of a run's connections
	Emit   string           // path of the program emit
	// Parallel is the number of concurrent runs for each processor.
	Parallel int
	// Size is the maximum output of most processes, in bytes. Large is the maximum of one process
	// in sixteen.
	Size, Large int64
	// Lossy means that the server does not block a process while its client is disconnected. Then
	// output may be lost, but the loss must be reported.
	Lossy bool
	// Killed are the possible exit codes of a terminated process.
	Killed []int
}

// recoveryRun is a client that runs processes on a server while its connections are disturbed. The
// seed determines everything except the order in which the scheduler runs goroutines.
type recoveryRun struct {
	RecoverySetup
	seed uint64

	plan   faultproxy.Plan
	proxy  *faultproxy.Proxy
	client *execclient.Client

	faults  chan struct{} // receives a value for each fault while it has space
	gate    net.Listener
	opening sync.Once // closes the gate
	enough  chan struct{}

	recoveries atomic.Int64
	slowest    atomic.Int64 // duration of the slowest recovery, in ns
	losses     atomic.Int64 // reported losses
	ends       atomic.Int64 // ends of a terminal's output that are missing

	mu     sync.Mutex
	jobs   []*job
	states []string // the states that the client has reported
	wrong  error    // an error in the sequence of these states
}

// do runs the client and its processes. Its error contains all information about a failure.
func (r *recoveryRun) do(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	err := r.connect(ctx)
	if err == nil {
		err = r.work(ctx)
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, r.dump())
	}
	if r.client != nil {
		err = errors.Join(err, r.client.Close())
	}
	if r.proxy != nil {
		r.proxy.Close()
	}
	if r.gate != nil {
		r.openGate()
	}
	return errors.Join(err, r.wrong)
}

func (r *recoveryRun) connect(ctx context.Context) error {
	var err error
	if r.gate, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	r.enough, r.faults = make(chan struct{}), make(chan struct{}, mostFaults)
	r.plan = faultproxy.Random(r.seed, r.Shape)
	r.plan.OnFault = func(_ int, f faultproxy.Fault) {
		if f.Kind != faultproxy.Stall {
			r.fault()
		}
	}
	if r.proxy, err = faultproxy.New(ctx, r.Target, r.plan); err != nil {
		return err
	}
	since := time.Now()
	r.client, err = execclient.DialWebSocket(ctx, "ws://"+r.proxy.Addr(), execclient.Options{
		ClientName: fmt.Sprintf("recovery-%d", r.seed),
		// Other tests exhaust the machine at the same time. The session ends after a minute.
		RecoveryTimeout: 50 * time.Second,
		OnStateChange: func(s execclient.StateChange) {
			r.stateChanged(s, &since)
		},
	})
	return err
}

// fault must be called when a connection is cut. It does not block.
func (r *recoveryRun) fault() {
	r.openGate()
	select {
	case r.faults <- struct{}{}:
	default:
	}
}

// openGate lets the gated process end.
func (r *recoveryRun) openGate() { r.opening.Do(func() { _ = r.gate.Close() }) }

// stateChanged checks that the client changes its state in the expected order
// and recovers.
func (r *recoveryRun) stateChanged(s execclient.StateChange, since *time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states = append(r.states, fmt.Sprintf("%v: %v", s.State, s.Err))
	switch s.State {
	case execclient.Recovering:
		*since = time.Now()
	case execclient.Connected:
		took := int64(time.Since(*since))
		r.slowest.Store(max(r.slowest.Load(), took))
		r.recoveries.Add(1)
	}
	if (s.Err == nil) != (s.State == execclient.Connected) {
		r.wrong = fmt.Errorf("the client is told to be %v because of %v", s.State, s.Err)
	}
}

// work runs the jobs: most of them at once, and a few when a fault happens. The gated and the idle
// job run until the others have ended.
func (r *recoveryRun) work(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := &jobs{rng: rand.New(rand.NewPCG(r.seed, 1)), emit: r.Emit, seed: r.seed}
	var first, last sync.WaitGroup
	launch := func(wg *sync.WaitGroup, j *job) {
		r.mu.Lock()
		r.jobs = append(r.jobs, j)
		r.mu.Unlock()
		wg.Go(func() {
			if err := j.run(ctx, r.client); err != nil && !r.lost(j, err) {
				cancel(err)
			}
		})
	}
	launch(&last, m.gated(r.gate.Addr().String()))
	if m.rng.IntN(4) == 0 {
		launch(&last, m.idle(r.enough, r.Killed))
	}
	for range 1 + m.rng.IntN(2) {
		launch(&first, m.printer("printer", r.printed(m.rng)))
	}
	launch(&first, m.echo(10_000+m.rng.Int64N(150_000), r.client.Has("process/closeStdin") && m.rng.IntN(2) == 0))
	quiet := make(chan struct{})
	var starting sync.WaitGroup
	starting.Go(func() {
		for {
			launch(&last, m.printer("short", m.rng.Int64N(5000)))
			select {
			case <-r.faults:
			case <-quiet:
				return
			}
		}
	})
	first.Wait()
	close(quiet)
	starting.Wait()
	r.openGate()
	close(r.enough)
	last.Wait()
	return context.Cause(ctx)
}

// printed chooses how many bytes a process prints.
func (r *recoveryRun) printed(rng *rand.Rand) int64 {
	const least = 100_000
	if rng.IntN(16) == 0 {
		return r.Size + rng.Int64N(r.Large-r.Size)
	}
	return int64(least * math.Exp(rng.Float64()*math.Log(float64(r.Size)/least)))
}

// everyServerRetains is the amount of a process's newest output that can always be read, in bytes.
const everyServerRetains = 1<<20 - 64<<10

// lost reports whether a job's error means a permitted loss: of output, of a session if the server
// may lose it, or of a start. Codex CLI's server leaves a process in the state starting for ever if
// the connection is cut at the wrong moment. That server also sometimes loses the end of a
// terminal's output while all events are in order. No client can notice that.
func (r *recoveryRun) lost(j *job, err error) bool {
	if !r.Lossy {
		return false
	}
	var lost *execclient.EventsLostError
	var short *shortError
	output := errors.As(err, &lost) || strings.Contains(err.Error(), "failed to recover process")
	session := strings.Contains(err.Error(), "failed to resume exec-server session")
	switch {
	case session, errors.Is(err, execclient.ErrStarting), output && j.out.length+j.err.length > everyServerRetains:
		r.losses.Add(1)
		return true
	case errors.As(err, &short) && j.tty:
		r.ends.Add(1)
		return true
	default:
		return false
	}
}

// dump describes the progress of all jobs.
func (r *recoveryRun) dump() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  plan: %v\n", r.plan)
	if r.proxy != nil {
		fmt.Fprintf(&b, "  proxy: %+v\n", r.proxy.Stats())
	}
	if r.client != nil {
		fmt.Fprintf(&b, "  client: %v, %v\n", r.client.State(), r.client.Err())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.states {
		fmt.Fprintf(&b, "  state: %s\n", s)
	}
	for _, j := range r.jobs {
		fmt.Fprintf(&b, "  job: %v\n", j)
	}
	return b.String()
}
