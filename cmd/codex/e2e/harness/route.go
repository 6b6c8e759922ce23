package harness

import (
	"context"
	"fmt"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/testutil/faultproxy"
)

// Route is the way of a run's client to the server, which is disturbed.
type Route interface {
	// Connect makes the way and the client.
	Connect(context.Context, execclient.Options) (*execclient.Client, error)
	// Close ends what Connect has begun, also if that has failed.
	Close() error
	// stats says what has happened so far.
	stats() RouteStats
	// String says what was to happen, and more for who looks for a failure.
	String() string
}

// NewRoute makes the route of a run. Fault is called whenever it is cut, by any
// goroutine, and does not wait.
type NewRoute func(seed uint64, fault func()) Route

// RouteStats are what has happened to a route.
type RouteStats struct {
	faultproxy.Stats     // of all proxies
	restarts         int // of what is between the proxies
}

// directRoute goes through a proxy to a server that listens.
type directRoute struct {
	target string // HOST:PORT
	plan   faultproxy.Plan
	proxy  *faultproxy.Proxy
}

// Direct returns what makes direct routes.
func Direct(target string, shape faultproxy.Shape) NewRoute {
	return func(seed uint64, fault func()) Route {
		r := &directRoute{target: target, plan: faultproxy.Random(seed, shape)}
		r.plan.OnFault = cuts(fault)
		return r
	}
}

// cuts calls fault for what ends a connection.
func cuts(fault func()) func(int, faultproxy.Fault) {
	return func(_ int, f faultproxy.Fault) {
		if f.Kind != faultproxy.Stall {
			fault()
		}
	}
}

func (r *directRoute) Connect(ctx context.Context, o execclient.Options) (*execclient.Client, error) {
	var err error
	if r.proxy, err = faultproxy.New(ctx, r.target, r.plan); err != nil {
		return nil, err
	}
	return execclient.DialWebSocket(ctx, "ws://"+r.proxy.Addr(), o)
}

func (r *directRoute) Close() error {
	if r.proxy != nil {
		r.proxy.Close()
	}
	return nil
}

func (r *directRoute) stats() RouteStats {
	if r.proxy == nil {
		return RouteStats{}
	}
	return RouteStats{Stats: r.proxy.Stats()}
}

func (r *directRoute) String() string {
	return fmt.Sprintf("plan: %v\n  proxy: %+v", r.plan, r.stats().Stats)
}
