package simulation

import (
	"context"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"codex.internal/pkg/account/registry"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/relay"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/rendezvous"
	"codex.internal/pkg/wire/websocket"
)

const (
	rendezvousAddress = "rendezvous:80"
	environment       = "environment"
	// relayedTTL is the time that a relayed session outlives its connection, and relayedRecovery
	// the time for which a client tries to resume it. An executor whose relay does not answer
	// notices this after 75 s, and may wait another 30 s for its next connection. With the defaults
	// of a minute and 25 s, nearly every disturbance would end the session, and no run would test
	// the behaviour after the recovery.
	relayedTTL      = 6 * time.Minute
	relayedRecovery = 4 * time.Minute
	// dialTimeout bounds a dial for a request to the registry, as in http.DefaultTransport.
	dialTimeout = 30 * time.Second
)

// relayedPlots are the plots of a run with a rendezvous service. They include additional events.
var relayedPlots = append([]string{"rendezvous restart", "rendezvous restart", "rendezvous outage", "executor outage"}, plots...)

// kept are the plots after which a relayed session must still exist: relayedRecovery is longer than
// all disturbances, and no other client takes the session over. Without this check, a client that
// gives up too early would count as one whose server was away for too long.
var kept = []string{"calm", "rendezvous restart", "rendezvous outage", "executor outage"}

// relayed is the rendezvous service of a run, with both ends that meet there: an executor whose
// streams the server serves, and a harness for each client.
type relayed struct {
	w     *world
	token string
	opts  rendezvous.Options
	keys  *noise.Identity // keys of all clients: a session belongs to its client's key
	plain [2]bool         // the executor and the harnesses behave like Codex CLI

	service *rendezvous.Server
	serving sync.WaitGroup

	executing sync.WaitGroup
	stop      context.CancelFunc // stops the executor
}

// newRelayed starts a rendezvous service.
func newRelayed(ctx context.Context, w *world) *relayed {
	rng := dice(w.seed, "rendezvous", 0)
	r := &relayed{w: w, plain: [2]bool{rng.IntN(5) == 0, rng.IntN(5) == 0}}
	tokens := rendezvous.OpenTokens(filepath.Join(w.dir, "tokens"))
	var err error
	r.token, _, err = tokens.Create(ctx, rendezvous.TokenSpec{Name: "all", Role: rendezvous.RoleBoth, Environments: []string{environment}})
	if err != nil {
		w.t.Fatal(err)
	}
	r.opts = rendezvous.Options{Tokens: tokens}
	if rng.IntN(2) == 0 {
		r.opts.StateFile = filepath.Join(w.dir, "state")
	}
	w.note("relayed: the state is kept: %t, plain executor: %t, plain harness: %t", r.opts.StateFile != "", r.plain[0], r.plain[1])
	if r.keys, err = noise.GenerateIdentity(); err != nil {
		w.t.Fatal(err)
	}
	r.serve()
	return r
}

// serve starts the service. The caller must have stopped the previous one.
func (r *relayed) serve() {
	service, err := rendezvous.New(context.Background(), r.opts)
	if err != nil {
		r.w.t.Fatal(err)
	}
	r.service = service
	l := r.w.net.listen(rendezvousAddress)
	r.serving.Go(func() { _ = service.Serve(context.Background(), l, nil) })
}

// stopService ends the service. The service informs its peers if the network permits.
func (r *relayed) stopService() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.service.Shutdown(ctx); err != nil {
		r.w.failf("the rendezvous service does not end: %v", err)
	}
	r.serving.Wait()
}

// restart ends the service and starts it again later. The service ends normally, or as if its
// machine had failed. Without a state file it then has no registrations.
func (r *relayed) restart(ctx context.Context) {
	crash := r.w.rng.IntN(2) == 0
	r.w.note("the rendezvous service ends (crash: %t)", crash)
	if crash {
		r.w.net.replace(rendezvousAddress, nil)
		r.w.net.breakAll()
	}
	r.stopService()
	_ = sleep(ctx, between(r.w.rng, time.Millisecond, 10*time.Second))
	r.w.note("the rendezvous service begins")
	r.serve()
}

// registry returns a client of the registry for a party.
func (r *relayed) registry(party string) *registry.Client {
	dial := &http.Transport{DialContext: r.w.net.within(dialTimeout, party), DisableKeepAlives: true, DisableCompression: true}
	c, err := registry.New(registry.Options{
		BaseURL: "http://" + rendezvousAddress, Authorizer: registry.Bearer(r.token, ""), Transport: dial,
	})
	if err != nil {
		r.w.t.Fatal(err)
	}
	return c
}

// execute makes a server serve the streams from the relay, until stopExecutor is called.
func (r *relayed) execute(srv *execserver.Server) {
	identity, err := noise.GenerateIdentity()
	if err != nil {
		r.w.t.Fatal(err)
	}
	reg := r.registry("executor's registry")
	o := relay.ExecutorOptions{
		Identity: identity, Plain: r.plain[0], DialContext: r.w.net.dialer("executor"),
		Register: func(ctx context.Context) (relay.Registration, error) {
			made, err := reg.Register(ctx, environment, identity.PublicKey())
			r.w.note("executor registers: %t", err == nil)
			return relay.Registration{URL: made.URL, EnvironmentID: environment, RegistrationID: made.ID}, err
		},
		Validate: func(ctx context.Context, registration string, harness noise.PublicKey, authorization string) (*registry.Grant, error) {
			return reg.Validate(ctx, environment, registry.Claim{RegistrationID: registration, HarnessKey: harness, Authorization: authorization})
		},
		Serve: func(c websocket.Transport) { _ = srv.ServeConn(c) },
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.executing.Go(func() {
		// If the first registration fails, Run returns. Then a supervisor would start it again, as this loop does.
		for ctx.Err() == nil {
			err := relay.NewExecutor(o).Run(ctx)
			r.w.note("executor ends: %t", err == nil)
			_ = sleep(ctx, time.Second)
		}
	})
}

func (r *relayed) stopExecutor() {
	r.stop()
	r.executing.Wait()
}

// client returns a dialer for the streams of a client.
func (r *relayed) client(party string) execclient.Dialer {
	reg := r.registry(party + "'s registry")
	jitter := &jitter{rng: dice(r.w.seed, "jitter "+party, 0)}
	return execclient.DialerOf(relay.NewHarness(relay.HarnessOptions{
		Identity: r.keys, Plain: r.plain[1], DialContext: r.w.net.dialer(party), Jitter: jitter.within,
		Connect: func(ctx context.Context) (relay.Bundle, error) {
			c, err := reg.Connect(ctx, environment, r.keys.PublicKey())
			return relay.Bundle{
				Registration: relay.Registration{URL: c.URL, EnvironmentID: environment, RegistrationID: c.RegistrationID},
				ExecutorKey:  c.ExecutorKey, Authorization: c.Authorization,
			}, err
		},
	}))
}

// jitter is the random part of the pauses of a harness.
type jitter struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (j *jitter) within(most time.Duration) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return time.Duration(j.rng.Int64N(int64(most)))
}

// happen simulates the events that only a rendezvous service has.
func (r *relayed) happen(ctx context.Context, plot string) {
	switch plot {
	case "rendezvous restart":
		r.restart(ctx)
	case "rendezvous outage":
		before := r.w.net.replace(rendezvousAddress, nil)
		r.w.net.breakAll()
		_ = sleep(ctx, between(r.w.rng, time.Second, time.Minute))
		r.w.net.replace(rendezvousAddress, before)
	case "executor outage":
		r.w.net.breakThose("executor")
	}
}
