package observe

import (
	"sync"
	"time"

	"codex.internal/pkg/internal/metrics"
)

// others stands for all principals, or all clients, that have no series of their own.
const others = "other"

// principals counts what each principal does, so that a client that floods the server can be found. The first principals that
// do something have series of their own, and all later ones share a series: the series of a counter must not end.
type principals struct {
	most int

	mu   sync.Mutex
	uses map[string]*principalUse
}

type principalUse struct {
	requests, processes int
	processor           time.Duration
}

// addPrincipals adds the metrics of at most that many principals.
func (m *Metrics) addPrincipals(o *Options, ev *Events) {
	p := &principals{most: o.Principals, uses: make(map[string]*principalUse)}
	ev.RequestDone.Add(func(end RequestEnd) { p.count(end.Principal, func(u *principalUse) { u.requests++ }) })
	ev.ProcessStarted.Add(func(of *Process) { p.count(of.Session.Principal, func(u *principalUse) { u.processes++ }) })
	ev.ProcessExited.Add(func(of *Process) {
		p.count(of.Session.Principal, func(u *principalUse) { u.processor += of.Exit.Processor })
	})
	p.collect(m.set, "exec_server_principal_requests_total", "Requests that were answered.", func(u *principalUse) float64 { return float64(u.requests) })
	p.collect(m.set, "exec_server_principal_processes_started_total", "Processes that were started.", func(u *principalUse) float64 { return float64(u.processes) })
	p.collect(m.set, "exec_server_principal_processor_seconds_total", "Processor time of processes that have exited.", func(u *principalUse) float64 { return u.processor.Seconds() })
	m.set.Collect(metrics.KindGauge, "exec_server_principal_limit_used", "What clients share: how much of each a principal uses.", []string{"principal", "limit"},
		func(emit func(float64, ...string)) {
			type key struct{ principal, limit string }
			used := make(map[key]int64)
			o.PrincipalShares(func(principal string, limit Limit, n int64) { used[key{p.label(principal), string(limit)}] += n })
			for of, n := range used {
				emit(float64(n), of.principal, of.limit)
			}
		})
}

// label returns the principal's value of the label principal.
func (p *principals) label(principal string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	name, _ := p.use(principal)
	return name
}

func (p *principals) count(principal string, add func(*principalUse)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, u := p.use(principal)
	add(u)
}

// use returns the series of a principal. It is called with mu held.
func (p *principals) use(principal string) (string, *principalUse) {
	name := Short(principal)
	if u := p.uses[name]; u != nil {
		return name, u
	}
	if len(p.uses) >= p.most {
		name = others // one more than most
	}
	u := p.uses[name]
	if u == nil {
		u = new(principalUse)
		p.uses[name] = u
	}
	return name, u
}

// collect adds a family with a counter for each principal.
func (p *principals) collect(set *metrics.Set, name, help string, value func(*principalUse) float64) {
	set.Collect(metrics.KindCounter, name, help, []string{"principal"}, func(emit func(float64, ...string)) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for principal, u := range p.uses {
			emit(value(u), principal)
		}
	})
}
