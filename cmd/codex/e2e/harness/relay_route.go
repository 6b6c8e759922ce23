package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/testutil/faultproxy"
)

// RelayEnvironment is the environment of every run: each has a service of its
// own.
const RelayEnvironment = "env-1"

// EndShape bounds what happens to the connections of one end. Its first
// connection is for a call of the registry, which has to succeed, and its second
// a websocket that has to last for the handshake.
type EndShape struct {
	Cuts  int              // of websockets that are in use; at least one
	Long  faultproxy.Shape // of them
	Early int              // connections that break soon, in between
	Short faultproxy.Shape // of them
	Calls bool             // the end makes a connection for each call of the registry
}

// RelaySetup is what the routes through a relay have in common.
type RelaySetup struct {
	Tokens, Token string // the file, and what is in it
	Dir           string // for the state of services
	// InProcess makes the executors that are plain and half of the others;
	// the rest are processes.
	InProcess NewExecutor
	// Harness and executor bound what happens to the connections of either
	// end.
	Harness, Executor EndShape
}

// NewExecutor starts an executor and returns when it is connected; stop ends it.
type NewExecutor func(context.Context, ExecutorOptions) (stop func() error, err error)

// ExecutorOptions say where an executor is to be found.
type ExecutorOptions struct {
	URL, Token, Environment string
	plain                   bool
	Log                     io.Writer
}

// outage is a time without the service.
type outage struct {
	after time.Duration // since the service began to run
	lasts time.Duration
}

func (o outage) String() string { return fmt.Sprintf("%v after %v", o.lasts, o.after) }

// RelayRoute goes through a proxy to the service, and from there through
// another to the executor. The service itself is killed now and then.
type RelayRoute struct {
	*RelaySetup
	fault                 func()
	Plain                 Plainness
	Execute               NewExecutor
	harnessCuts, execCuts faultproxy.Plan
	outages               []outage

	log            Tail // of both ends
	Service        *Service
	HarnessProxy   *faultproxy.Proxy
	ExecutorProxy  *faultproxy.Proxy
	stopExecutor   func() error
	interrupt      context.CancelFunc
	interrupting   sync.WaitGroup
	interruptError error

	mu       sync.Mutex
	restarts int
}

// Plainness is which ends do what Codex CLI does: they acknowledge nothing,
// and a stream ends with its websocket.
type Plainness int

const (
	Acknowledging Plainness = iota
	plainHarness
	plainExecutor
	PlainBoth
	plainnesses // how many there are
)

func (p Plainness) harness() bool  { return p == plainHarness || p == PlainBoth }
func (p Plainness) executor() bool { return p == plainExecutor || p == PlainBoth }

func (p Plainness) String() string {
	return [plainnesses]string{"both ends acknowledge", "plain harness", "plain executor", "both ends plain"}[p]
}

// Routes makes the route of a seed. Most streams acknowledge.
func (s *RelaySetup) Routes(seed uint64, fault func()) Route {
	rng := rand.New(rand.NewPCG(seed, 4))
	r := &RelayRoute{RelaySetup: s, fault: fault, Execute: s.InProcess}
	if rng.IntN(2) == 0 {
		r.Plain = Plainness(1 + rng.IntN(int(plainnesses)-1))
	}
	if !r.Plain.executor() && rng.IntN(2) == 0 {
		r.Execute = executorProcess
	}
	harness, executor := s.Harness, s.Executor
	if r.Plain != Acknowledging {
		// Each return takes more, and can be cut more often.
		harness.Cuts--
		executor.Cuts--
	}
	r.harnessCuts = harness.plan(seed<<1, fault)
	r.execCuts = executor.plan(seed<<1|1, fault)
	for range rng.IntN(3) {
		r.outages = append(r.outages, outage{
			after: logUniform(rng, time.Millisecond, 2*time.Second), lasts: logUniform(rng, time.Millisecond, 500*time.Millisecond),
		})
	}
	return r
}

// plan plans what happens to the connections of the end. Those that break as
// soon as they are made are few in a row: after each, an end waits for longer
// before it tries again.
func (e *EndShape) plan(seed uint64, fault func()) faultproxy.Plan {
	rng := rand.New(rand.NewPCG(seed, 5))
	cut := func(s faultproxy.Shape) faultproxy.Conn {
		s.Cuts = 1
		c := faultproxy.Random(rng.Uint64(), s).Conns[0]
		for i, f := range c.Faults {
			// A service that is sent half a request, and then the end, says
			// that this was not good, and has to be believed.
			if f.Kind == faultproxy.HalfClose && f.Dir == faultproxy.Up {
				c.Faults[i].Kind = faultproxy.Close
			}
		}
		return c
	}
	call := []faultproxy.Conn{{}}
	conns := append(call, cut(e.Long))
	long := e.Long
	long.First *= 8 // to come back takes more than the first handshake
	if !e.Calls {
		// The first harness is to be let in: nobody tries that again.
		conns = append(conns, call...)
		call = nil
	}
	for range rng.IntN(e.Cuts) {
		for range rng.IntN(e.Early + 1) {
			switch rng.IntN(3) {
			case 0:
				conns = append(conns, faultproxy.Conn{Refuse: true})
			case 1:
				conns = append(conns, cut(e.Short))
			case 2:
				conns = append(append(conns, call...), cut(e.Short))
			}
		}
		conns = append(append(conns, call...), cut(long))
	}
	return faultproxy.Plan{Seed: seed, Conns: conns, OnFault: cuts(fault)}
}

// logUniform returns a time whose logarithm is evenly distributed.
func logUniform(rng *rand.Rand, least, most time.Duration) time.Duration {
	d := float64(least) * math.Pow(float64(most)/float64(least), rng.Float64())
	return time.Duration(d).Round(time.Millisecond)
}

func (r *RelayRoute) Connect(ctx context.Context, o execclient.Options) (*execclient.Client, error) {
	dir, err := os.MkdirTemp(r.Dir, "")
	if err != nil {
		return nil, err
	}
	r.Service = &Service{Args: []string{"--tokens", r.Tokens, "--state", filepath.Join(dir, "state.json")}}
	if err := r.Service.Start(ctx); err != nil {
		return nil, err
	}
	if r.HarnessProxy, err = faultproxy.New(ctx, r.Service.Addr, r.harnessCuts); err != nil {
		return nil, err
	}
	if r.ExecutorProxy, err = faultproxy.New(ctx, r.Service.Addr, r.execCuts); err != nil {
		return nil, err
	}
	if r.stopExecutor, err = r.Execute(ctx, ExecutorOptions{
		URL: "http://" + r.ExecutorProxy.Addr(), Token: r.Token, Environment: RelayEnvironment, plain: r.Plain.executor(), Log: &r.log,
	}); err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug})).With("end", "harness")
	d, err := NewRelayDialer("http://"+r.HarnessProxy.Addr(), r.Token, RelayEnvironment, r.Plain.harness(), log)
	if err != nil {
		return nil, err
	}
	o.Logger = log
	client, err := dialPatiently(ctx, d, o)
	if err != nil {
		return nil, err
	}
	ctx, r.interrupt = context.WithCancel(ctx)
	r.interrupting.Go(func() { r.interruptError = r.routineInterrupt(ctx) })
	return client, nil
}

// mostDials is how often the first connection is tried.
const mostDials = 5

// dialPatiently does what a user does whose first connection failed for a
// passing reason, such as a machine that was too busy for the ten seconds that a
// handshake may take: it tries again. What is lost after that, the client has to
// recover.
func dialPatiently(ctx context.Context, d execclient.Dialer, o execclient.Options) (*execclient.Client, error) {
	for dials := 1; ; dials++ {
		client, err := execclient.Dial(ctx, d, o)
		var passing interface{ Retryable() bool }
		if err == nil || dials == mostDials || !errors.As(err, &passing) || !passing.Retryable() {
			return client, err
		}
	}
}

// routineInterrupt kills the service and starts it again, as planned.
func (r *RelayRoute) routineInterrupt(ctx context.Context) error {
	for _, o := range r.outages {
		if !Pause(ctx, o.after) {
			return nil
		}
		r.Service.Kill()
		r.mu.Lock()
		r.restarts++
		r.mu.Unlock()
		r.fault()
		if !Pause(ctx, o.lasts) {
			return nil
		}
		if err := r.Service.Start(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("start the service again: %w", err)
		}
	}
	return nil
}

// Pause reports whether it was not interrupted.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *RelayRoute) Close() error {
	if r.interrupt != nil {
		r.interrupt()
		r.interrupting.Wait()
	}
	var err error
	if r.stopExecutor != nil {
		err = r.stopExecutor()
	}
	for _, p := range []*faultproxy.Proxy{r.HarnessProxy, r.ExecutorProxy} {
		if p != nil {
			p.Close()
		}
	}
	if r.Service != nil {
		r.Service.Kill()
	}
	return errors.Join(err, r.interruptError)
}

func (r *RelayRoute) stats() RouteStats {
	r.mu.Lock()
	sum := RouteStats{restarts: r.restarts}
	r.mu.Unlock()
	for _, p := range []*faultproxy.Proxy{r.HarnessProxy, r.ExecutorProxy} {
		if p == nil {
			continue
		}
		s := p.Stats()
		sum.Conns += s.Conns
		sum.Refused += s.Refused
		sum.Faults += s.Faults
		sum.Stalls += s.Stalls
		sum.Up += s.Up
		sum.Down += s.Down
	}
	return sum
}

func (r *RelayRoute) String() string {
	text := fmt.Sprintf("%v; outages: %v\n  harness's plan: %v\n  executor's plan: %v\n  proxies: %+v", r.Plain, r.outages, r.harnessCuts, r.execCuts, r.stats())
	if r.Service != nil {
		text += "\n  service: " + r.Service.log.String() + "\n  ends: " + r.log.String()
	}
	return text
}
