//go:build linux || darwin

package execserver

import (
	"sync"
	"time"

	"codex.internal/pkg/host/process"
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
		select {
		case <-taken.Ended(): // killed by somebody, or by the kernel for its memory
			taken = nil
		default:
		}
	}
	switch {
	case len(p.idle) == 0 || p.stopped:
		p.fill()
	case p.refill == nil:
		p.refill = time.AfterFunc(refillDelay, p.warm)
	default:
		p.refill.Reset(refillDelay)
	}
	return taken
}

// noLauncher is for helpers that no request waits for: it leaves the launchers to
// those that do.
func noLauncher() *process.Standby { return nil }

// warm starts the launchers that are missing.
func (p *launcherPool) warm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fill()
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
	var started *process.Standby
	runtime, err := p.srv.sandboxes()
	if err == nil {
		c := runtime.Standby()
		started, err = p.srv.supervisor.StartStandby(process.Spec{
			Argv: c.Argv, Arg0: &c.Arg0, Dir: "/", Env: c.Env, ExtraFiles: c.Files,
		})
	}
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
}
