package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/host/process"
	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
)

const (
	serverAddress = "server:80"
	serverURL     = "ws://" + serverAddress
	processName   = "p"
	// patience is the time within which every call must end after the network has become quiet, on
	// the clock of the bubble.
	patience = 10 * time.Minute
	keep     = 5 * time.Second // interval between probes of a connection
	// longOutage bounds an outage, so that time is left for the events that must come after it.
	longOutage = 5 * time.Minute
)

// The numbers of the clients in a history.
const (
	clientA = iota
	clientB // takes over the session
	clientC // tries to resume it while another client is attached
	nobody  // observes the process
)

// world is the state of one run.
type world struct {
	*history
	t       *testing.T
	dir     string // directory for files
	seed    uint64
	rng     *rand.Rand
	net     *network
	machine *machine
	server  *execserver.Server
	serving sync.WaitGroup
	relayed *relayed      // nil: clients reach the server directly
	ttl     time.Duration // lifetime of a session without a connection
	a       *execclient.Client
	proc    *execclient.Process
	b       *execclient.Client // the client that has taken over the session; may be nil
	other   *dialer            // dialer of the client that has joined
	wg      sync.WaitGroup

	complete bool // a client has received the normal end of the process, with all its output

	mu       sync.Mutex
	failures []string
	outputs  map[execproto.Stream][]byte // output that client A has received
	seenErr  error                       // the reason why client A received no more
}

// outcome is the result of a run.
type outcome struct {
	lines    []string
	failures []string
	plot     string
	complete bool // see world.complete
}

// history returns the recorded events of a seed's run, as text.
func (o outcome) history(seed uint64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d (%s):\n", seed, o.plot)
	for _, line := range slices.Concat(o.failures, o.lines) {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// play runs one seed in a bubble.
func play(t *testing.T, seed uint64) (o outcome) {
	var ran *history
	uuid.SetRand(&ids{rng: dice(seed, "ids", 0)}) // messages contain session ids
	defer uuid.SetRand(nil)
	cryptotest.SetGlobalRandom(t, seed) // makes keys and nonces reproducible; their texts differ in length in URLs
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h := newHistory()
		w := &world{
			history: h, t: t, seed: seed, rng: dice(seed, "world", 0), net: newNetwork(seed, h),
			dir: dir, machine: &machine{seed: seed}, outputs: make(map[execproto.Stream][]byte), ttl: execserver.DefaultSessionTTL,
		}
		plot := w.run(t.Context())
		o, ran = outcome{w.lines, w.failures, plot, w.complete}, h
	})
	if ran == nil {
		return o // the test reports the reason
	}
	if got := ran.check(); got != porcupine.Ok {
		o.failures = append(o.failures, fmt.Sprintf("the history is not one of the model: %v", got))
	}
	return o
}

func (w *world) failf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

// serve starts a server on the address. The caller must have stopped the previous one.
func (w *world) serve() {
	srv, err := execserver.New(execserver.Options{AnyPeer: true, SessionTTL: w.ttl, Process: process.Options{Launch: w.machine.launch}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.server = srv
	if w.relayed != nil {
		w.relayed.execute(srv)
		return
	}
	l := w.net.listen(serverAddress)
	w.serving.Go(func() { _ = srv.Serve(context.Background(), l) })
}

func (w *world) stopServer() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if w.relayed != nil {
		w.relayed.stopExecutor()
	}
	if err := w.server.Shutdown(ctx); err != nil {
		w.failf("the server does not end: %v", err)
	}
	w.serving.Wait()
}

// plots are the events that may happen in a run, in addition to the network's faults.
var plots = []string{"calm", "calm", "take-over", "take-over after an end", "intruder", "outage", "restart"}

// run plays a run to its end. It returns the plot of the run.
func (w *world) run(ctx context.Context) string {
	plot := plots[w.rng.IntN(len(plots))]
	if dice(w.seed, "route", 0).IntN(2) == 0 {
		plot = relayedPlots[w.rng.IntN(len(relayedPlots))]
		w.ttl = relayedTTL
		w.relayed = newRelayed(ctx, w)
	}
	w.note("plot: %s", plot)
	w.serve()
	defer func() {
		w.net.settle()
		if w.a != nil {
			_ = w.a.Close()
		}
		if w.b != nil {
			_ = w.b.Close()
		}
		w.wg.Wait()
		w.stopServer()
		if w.relayed != nil {
			w.relayed.stopService()
		}
		w.net.stop()
	}()
	if !w.begin(ctx) {
		return plot
	}
	bound, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	writers := w.writers(bound)
	w.wg.Go(func() { w.follow(bound) })
	_ = sleep(bound, between(w.rng, time.Millisecond, 5*time.Second))
	owner := w.happen(bound, plot)
	_ = sleep(bound, between(w.rng, time.Millisecond, 5*time.Second))
	w.net.settle()
	writers.Wait()
	if owner == nil {
		owner = w.a
	}
	w.finish(bound, owner, plot)
	if bound.Err() != nil {
		w.failf("a call has not ended after %v", patience)
	}
	return plot
}

// luck is the time for which a disturbed network may prevent the first client from starting its
// process. Through a rendezvous service, five connections must survive for a start.
const luck = 2 * time.Minute

// begin connects the first client and starts the process.
func (w *world) begin(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	lucky := time.AfterFunc(luck, w.net.settle)
	defer func() {
		lucky.Stop()
		w.net.disturb()
	}()
	dial := w.route("a")
	for w.a == nil {
		c, err := dial(ctx)
		if err != nil && ctx.Err() != nil {
			w.failf("no connection: %v", err)
			return false
		}
		w.a = c
	}
	began := w.call(clientA, input{op: opStart})
	proc, err := w.a.Start(ctx, execproto.StartParams{
		ProcessID: processName, Argv: []string{"/simulated", processName}, Cwd: "/", PipeStdin: true,
	})
	if err != nil {
		began(resultUnknown)
		w.note("no start: %v", err)
		if ctx.Err() != nil || !ended(err) {
			w.failf("no start: %v", err)
		}
		return false
	}
	began(resultOK)
	w.proc = proc
	return true
}

// route returns a function that makes a client's first connection. The client makes its later connections in the same way.
func (w *world) route(party string) func(context.Context) (*execclient.Client, error) {
	o := execclient.Options{KeepAlive: keep, Connect: w.net.dialer(party), ClientName: party}
	if w.relayed == nil {
		return func(ctx context.Context) (*execclient.Client, error) {
			return execclient.DialWebSocket(ctx, serverURL, o)
		}
	}
	o.RecoveryTimeout = relayedRecovery
	d := w.relayed.client(party)
	return func(ctx context.Context) (*execclient.Client, error) { return execclient.Dial(ctx, d, o) }
}

// ended reports whether an error means that the session is lost. A client gets it if its server was
// away for too long.
func ended(err error) bool { return errors.Is(err, execclient.ErrClosed) }

// writers begins the writes of the first client. Two goroutines write at a time.
func (w *world) writers(ctx context.Context) *sync.WaitGroup {
	var wg sync.WaitGroup
	for n := range 2 {
		rng := dice(w.seed, "writer", n)
		wg.Go(func() {
			for i := range 1 + rng.IntN(8) {
				_ = sleep(ctx, between(rng, time.Microsecond, 1500*time.Millisecond))
				id := fmt.Sprintf("a%d.%d", n, i)
				done := w.call(clientA, input{op: opWrite, id: id})
				status, err := w.proc.Write(ctx, line(rng, id))
				done(w.written(status, err))
			}
		})
	}
	observer := dice(w.seed, "observer", 0)
	wg.Go(func() {
		for range observer.IntN(5) {
			_ = sleep(ctx, between(observer, time.Millisecond, 3*time.Second))
			for _, p := range w.machine.named(processName) {
				w.call(nobody, input{op: opObserve, lines: p.inputs()})(resultOK)
			}
		}
	})
	return &wg
}

// line returns the text of a write with an id. It may be longer than the capacity of a pipe.
func line(rng *rand.Rand, id string) []byte {
	most := 200
	if rng.IntN(6) == 0 {
		most = 40_000
	}
	return fmt.Appendf(nil, "%s %s\n", id, strings.Repeat("y", rng.IntN(most)))
}

// written converts the result of a write to an outcome in the history.
func (w *world) written(status execproto.WriteStatus, err error) output {
	switch {
	case err == nil && status == execproto.WriteAccepted:
		return resultOK
	case err == nil && status == execproto.WriteStdinClosed:
		return resultRefused
	case err == nil && status == execproto.WriteUnknownProcess, ended(err):
		return resultUnknown
	default:
		w.failf("a write ends with %q, %v", status, err)
		return resultUnknown
	}
}

// follow collects the output that the first client receives.
func (w *world) follow(ctx context.Context) {
	var last uint64
	for e, err := range w.proc.Events(ctx) {
		w.mu.Lock()
		switch {
		case err != nil:
			w.seenErr = err
		case e.Seq != last+1:
			w.seenErr = fmt.Errorf("event %d follows %d", e.Seq, last)
			w.failures = append(w.failures, w.seenErr.Error())
		case e.Kind == execclient.Output:
			w.outputs[e.Stream] = append(w.outputs[e.Stream], e.Data...)
		}
		last = e.Seq
		w.mu.Unlock()
	}
}

// happen simulates the plot. It returns the client that then has the session; nil: the first one.
func (w *world) happen(ctx context.Context, plot string) *execclient.Client {
	switch plot {
	case "take-over", "take-over after an end":
		if plot != "take-over" {
			_ = w.a.Close()
		}
		b := w.join(ctx, clientB, true)
		if b == nil {
			return nil
		}
		w.b = b
		_ = sleep(ctx, between(w.rng, time.Millisecond, 300*time.Millisecond))
		_ = w.a.Close()
		return b
	case "intruder":
		if c := w.join(ctx, clientC, false); c != nil {
			_ = sleep(ctx, between(w.rng, time.Millisecond, time.Second))
			_ = c.Close()
		}
	case "outage":
		w.call(nobody, input{op: opEnd})(resultUnknown)
		address := serverAddress
		if w.relayed != nil {
			address = rendezvousAddress
		}
		before := w.net.replace(address, nil)
		w.net.breakAll()
		_ = sleep(ctx, between(w.rng, time.Second, min(2*w.ttl, longOutage)))
		w.net.replace(address, before)
	case "restart":
		w.call(nobody, input{op: opEnd})(resultUnknown)
		w.stopServer()
		_ = sleep(ctx, between(w.rng, time.Millisecond, 10*time.Second))
		w.serve()
	default:
		if w.relayed != nil {
			w.relayed.happen(ctx, plot)
		}
	}
	return nil
}

// join makes another client resume the session.
func (w *world) join(ctx context.Context, client int, takeOver bool) *execclient.Client {
	op := opResume
	if takeOver {
		op = opTake
	}
	o := execclient.Options{KeepAlive: keep, ClientName: "other", ResumeSessionID: w.a.SessionID()}
	party := fmt.Sprint("client", client)
	d := &dialer{takeOver: takeOver}
	if w.relayed != nil {
		d.Dialer, o.RecoveryTimeout = w.relayed.client(party), relayedRecovery
	} else {
		d.Dialer = direct(w.net.dialer(party))
	}
	w.other = d
	for {
		done := w.call(client, input{op: op})
		c, err := execclient.Dial(ctx, d, o)
		switch {
		case err == nil:
			done(resultOK)
			return c
		case ctx.Err() != nil:
			done(resultRefused)
			w.failf("client %d cannot resume the session: %v", client, err)
			return nil
		case execclient.IsCode(err, execproto.CodeSessionAttached):
			done(resultRefused)
			return nil
		case strings.Contains(err.Error(), "unknown session"):
			done(resultNone)
			return nil
		}
		done(resultRefused)
		_ = sleep(ctx, between(w.rng, time.Millisecond, time.Second))
	}
}
