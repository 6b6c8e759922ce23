//go:build linux || darwin

package execserver

import (
	"errors"
	"slices"
	"strings"
	"time"

	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox/launch"
)

// aheadPolicy is a policy under which a command was started lately. The next command is
// likely to have the same, so a launcher makes its sandbox ahead.
type aheadPolicy struct {
	key    string
	intent launch.Intent
	tmpdir string
	used   time.Time
	making bool // a launcher is being started
	failed bool // no sandbox can be made ahead for it
	ready  *process.Standby
}

// takeFor returns a launcher for a command with an environment: one that has made the sandbox
// of the intent, one that is idle, or nil. The caller starts a process with it.
func (p *launcherPool) takeFor(runtime *launch.Runtime, intent *launch.Intent, env []string) *process.Standby {
	tmpdir := ""
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, "TMPDIR="); ok {
			tmpdir = value
		}
	}
	key := runtime.PrepareKey(*intent, tmpdir)
	if key == "" {
		return p.take()
	}
	if ready := p.takeAhead(&aheadPolicy{key: key, intent: *intent, tmpdir: tmpdir}); ready != nil {
		return ready
	}
	return p.take()
}

// takeAhead returns the launcher that has made the sandbox of a policy, or nil, and notes
// that the policy was used.
func (p *launcherPool) takeAhead(a *aheadPolicy) *process.Standby {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(p.ahead, func(o *aheadPolicy) bool { return o.key == a.key }); i >= 0 {
		a = p.ahead[i]
		p.ahead = slices.Delete(p.ahead, i, i+1)
	}
	a.used = time.Now()
	p.ahead = slices.Insert(p.ahead, 0, a)
	p.forgetAhead(a.used)
	ready := a.ready
	a.ready = nil
	if ready == nil || hasEnded(ready) {
		return nil
	}
	p.delay()
	return ready
}

// forgetAhead closes the launchers of policies that were not used lately, or before too many
// others. p.mu must be held.
func (p *launcherPool) forgetAhead(now time.Time) {
	for i, a := range p.ahead {
		if i < maxAheadPolicies && now.Sub(a.used) < aheadTime {
			continue
		}
		for _, old := range p.ahead[i:] {
			old.ready.Close()
			old.ready = nil
		}
		p.ahead = slices.Delete(p.ahead, i, len(p.ahead))
		break
	}
	if p.forget != nil {
		p.forget.Stop()
		p.forget = nil
	}
	if len(p.ahead) > 0 && !p.stopped {
		p.forget = time.AfterFunc(p.ahead[len(p.ahead)-1].used.Add(aheadTime).Sub(now), p.forgetOld)
	}
}

func (p *launcherPool) forgetOld() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetAhead(time.Now())
}

// fillAhead starts the launchers that make sandboxes ahead. p.mu must be held.
func (p *launcherPool) fillAhead() {
	for _, a := range p.ahead {
		if p.stopped || a.making || a.failed || a.ready != nil && !hasEnded(a.ready) {
			continue
		}
		a.ready, a.making = nil, true
		p.srv.wg.Go(func() { p.routineAhead(a) })
	}
}

// routineAhead starts a launcher and has it make the sandbox of a policy.
func (p *launcherPool) routineAhead(a *aheadPolicy) {
	ready, err := p.startLauncher()
	if err == nil {
		if err = p.prepare(ready, a); err != nil {
			p.srv.log.Debug("no sandbox is made ahead for a policy", "error", err)
			ready.Close()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// Anything else, such as a lack of memory, may be over when the policy is used again.
	a.making, a.failed = false, errors.Is(err, process.ErrUnprepared)
	switch {
	case err != nil:
	case p.stopped || !slices.Contains(p.ahead, a):
		ready.Close()
	default:
		a.ready = ready
	}
}

func (p *launcherPool) prepare(launcher *process.Standby, a *aheadPolicy) error {
	runtime, err := p.srv.sandboxes()
	if err != nil {
		return err
	}
	c, err := runtime.Prepare(a.intent, a.tmpdir)
	if err != nil {
		return err
	}
	defer c.Close()
	return launcher.Prepare(process.Spec{Argv: c.Argv, ExtraFiles: c.Files})
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
