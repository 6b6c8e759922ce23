package confine

import (
	"sync"
	"time"

	"codex.internal/pkg/host/process"
)

// launcherPool keeps sandbox launchers that were started before a request needs
// them (pkg/host/warmstart): they have done what a Go program does before its first useful
// step, which takes 2 ms of a sandboxed start. Each makes one sandbox. They hold
// nothing of a request while they wait.
//
// The first request with a sandbox starts them. One that is taken is replaced after
// refillDelay, or at once if it was the last. If there is none, because requests come
// faster than launchers start, the request starts its own.
type launcherPool struct {
	c *Confiner

	mu       sync.Mutex
	idle     []*process.Standby
	starting int
	refill   *time.Timer // calls fill; nil: no launcher was used yet
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

// hasEnded reports whether a launcher was killed by somebody, or by the kernel for its memory.
func hasEnded(launcher *process.Standby) bool {
	select {
	case <-launcher.Ended():
		return true
	default:
		return false
	}
}

// fill starts the launchers that are missing.
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
	runtime, err := p.c.Sandboxes()
	if err != nil {
		return nil, err
	}
	c := runtime.Standby()
	return p.c.opts.Supervisor.StartStandby(process.Spec{
		Argv: c.Argv, Arg0: &c.Arg0, Dir: "/", Env: c.Env, ExtraFiles: c.Files,
	})
}

// close ends the idle launchers, and no more are started. It is called before the end
// of Confiner.wg is waited for, which counts those that are starting.
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
