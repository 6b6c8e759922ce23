package execserver

import (
	"sync"
	"time"

	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox/runner"
)

// launcherPool keeps sandbox launchers that were started before a request needs
// them: they have done what a Go program does before its first useful step, which
// is most of what a sandboxed start costs. Each makes one sandbox. They hold
// nothing of a request while they wait.
//
// The first request with a sandbox starts them. One that is taken is replaced after
// refillDelay, or at once if it was the last. If there is none, because requests come
// faster than launchers start, the request starts its own.
type launcherPool struct {
	srv *Server

	mu       sync.Mutex
	idle     []*process.Standby
	ahead    []*aheadPolicy // the last used first
	forget   *time.Timer    // calls forgetOld; nil: there is nothing to forget
	starting int
	refill   *time.Timer // calls warm; nil: none was taken yet
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
	if len(p.idle) == 0 {
		p.fill()
	}
	p.delay()
	return taken
}

// delay has the missing launchers started after refillDelay. p.mu must be held.
func (p *launcherPool) delay() {
	switch {
	case p.stopped:
	case p.refill == nil:
		p.refill = time.AfterFunc(refillDelay, p.warm)
	default:
		p.refill.Reset(refillDelay)
	}
}

// noLauncher is for helpers that no request waits for: it leaves the launchers to
// those that do.
func noLauncher(*runner.Runtime, *runner.Intent) *process.Standby { return nil }

// warm starts the launchers that are missing.
func (p *launcherPool) warm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fill()
	p.fillAhead()
}

// fill starts the launchers that are missing. p.mu must be held.
func (p *launcherPool) fill() {
	for !p.stopped && len(p.idle)+p.starting < maxIdleLaunchers {
		p.starting++
		p.srv.wg.Go(p.routineStart)
	}
}

// routineStart starts one launcher. If it cannot be started, the request that
// starts its own gets the error.
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
	runtime, err := p.srv.sandboxes()
	if err != nil {
		return nil, err
	}
	c := runtime.Standby()
	return p.srv.supervisor.StartStandby(process.Spec{
		Argv: c.Argv, Arg0: &c.Arg0, Dir: "/", Env: c.Env, ExtraFiles: c.Files,
	})
}

// close ends the idle launchers, and no more are started. It is called before the end
// of srv.wg is waited for, which counts those that are starting.
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
	for _, a := range p.ahead {
		a.ready.Close()
	}
	p.ahead = nil
	if p.forget != nil {
		p.forget.Stop()
	}
}
