package confine

import (
	"sync"
	"time"

	"codex.internal/pkg/host/process"
)

// launcherPool starts sandbox launchers before a request needs them (pkg/host/warmstart). An
// idle launcher has already completed the start-up of a Go program, which takes 2 ms of a
// sandboxed start. Each launcher makes one sandbox. An idle launcher has no data of a request.
//
// The first request with a sandbox starts them. A launcher that was taken is replaced after
// refillDelay, or immediately if it was the last one. If none is idle, because requests arrive
// faster than launchers start, the request starts its own.
type launcherPool struct {
	c *Confiner

	mu       sync.Mutex
	idle     []*process.Standby
	starting int
	refill   *time.Timer // timer that calls fill; nil: no launcher was used yet
	stopped  bool
}

// take returns an idle launcher, or nil. The caller starts a process with it.
func (p *launcherPool) take() *process.Standby {
	p.mu.Lock()
	defer p.mu.Unlock()
	var taken *process.Standby
	for len(p.idle) > 0 && taken == nil {
		taken, p.idle = p.idle[0], p.idle[1:]
		if hasEnded(taken) {
			taken = nil
		}
	}
	switch {
	case p.stopped:
	case len(p.idle) == 0:
		p.startMissing()
	case p.refill == nil:
		p.refill = time.AfterFunc(refillDelay, p.fill)
	default:
		p.refill.Reset(refillDelay)
	}
	return taken
}

// hasEnded reports whether a launcher has ended, because another process or the kernel's OOM
// killer has killed it.
func hasEnded(launcher *process.Standby) bool {
	select {
	case <-launcher.Ended():
		return true
	default:
		return false
	}
}

// fill starts launchers until maxIdleLaunchers are idle.
func (p *launcherPool) fill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.startMissing()
}

// startMissing is fill. p.mu must be held.
func (p *launcherPool) startMissing() {
	for !p.stopped && len(p.idle)+p.starting < maxIdleLaunchers {
		p.starting++
		p.c.wg.Go(p.routineStart)
	}
}

// routineStart starts one launcher. It ignores an error: a request then starts its own
// launcher, and gets the error.
func (p *launcherPool) routineStart() {
	started, err := p.startLauncher()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starting--
	switch {
	case err != nil:
	case p.stopped:
		started.Close()
	default:
		p.idle = append(p.idle, started)
	}
}

func (p *launcherPool) startLauncher() (*process.Standby, error) {
	runtime, err := p.c.Sandboxes()
	if err != nil {
		return nil, err
	}
	c := runtime.Standby()
	return p.c.opts.Supervisor.StartStandby(process.Spec{
		Argv: c.Argv, Arg0: &c.Arg0, Dir: "/", Env: c.Env, ExtraFiles: c.Files,
	})
}

// close ends the idle launchers, and prevents new ones. It must be called before waiting for
// Confiner.wg, which counts the launchers that are being started.
func (p *launcherPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.refill != nil {
		p.refill.Stop()
	}
	for _, st := range p.idle {
		st.Close()
	}
	p.idle = nil
}
