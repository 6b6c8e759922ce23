package execserver

import (
	"errors"
	"slices"
	"strings"
	"time"

	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/runner"
)

// aheadPolicy is a policy under which a command was started lately, or toRead. The next command is
// likely to have the same, so a launcher makes its sandbox ahead.
type aheadPolicy struct {
	key    string
	intent runner.Intent
	tmpdir string
	used   time.Time
	making bool // a launcher is being started
	failed bool // no sandbox can be made ahead for it
	ready  *process.Standby
}

// takeFor returns a launcher for a command with an environment: one that has made the sandbox
// of the intent, one that is idle, or nil. The caller starts a process with it.
func (p *launcherPool) takeFor(runtime *runner.Runtime, intent *runner.Intent, env []string) *process.Standby {
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

// toRead is the key of the sandbox that is made ahead for file requests that change nothing. Their policies may be ones
// that were not used before: in the sandbox all can be read but what the server hides, and the launcher has masks for a few paths
// that the policy of the request denies.
const toRead = "read files"

// takeForHelper returns a launcher for a file request: if it changes nothing, one that has made the sandbox of toRead, if
// it can be that of the request, one that is idle, or nil. The caller starts a helper with it.
func (p *launcherPool) takeForHelper(runtime *runner.Runtime, intent *runner.Intent) *process.Standby {
	denied, rest := splitDenied(&intent.Profile.FileSystem)
	// Some of what is denied is what the server hides.
	few := sandbox.SpareMasks + len(p.srv.secretPaths) + len(p.srv.opts.PrivatePaths) + 1
	if !intent.Reading || intent.LegacyLandlock || intent.Within != "" || !runtime.MakesAhead() || len(denied) > few || !rest.FullRead() ||
		grantsIn(rest.Entries, denied) {
		return p.take()
	}
	if ready := p.takeAhead(&aheadPolicy{key: toRead}); ready != nil {
		return ready
	}
	return p.take()
}

// grantsIn reports whether an entry lets a part of a denied path be read.
func grantsIn(entries []permissions.Entry, denied []string) bool {
	return slices.ContainsFunc(entries, func(e permissions.Entry) bool {
		return e.Path.Kind == permissions.Literal && slices.ContainsFunc(denied, func(dir string) bool { return isBelow(e.Path.Text, dir) })
	})
}

// intentToRead is the intent of the sandbox of toRead.
func (srv *Server) intentToRead() runner.Intent {
	profile := permissions.Profile{Kind: permissions.Managed}
	profile.FileSystem.Entries = []permissions.Entry{{Path: permissions.Path{Kind: permissions.Root}, Access: permissions.Read}}
	srv.hideSecrets(&profile, false)
	return runner.Intent{Profile: profile, PolicyCwd: "/", CommandCwd: "/", Reading: true}
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
	intent, prepare := a.intent, launcher.Prepare
	if a.key == toRead {
		intent, prepare = p.srv.intentToRead(), launcher.PrepareChild
	}
	c, err := runtime.Prepare(intent, a.tmpdir)
	if err != nil {
		return err
	}
	defer c.Close()
	return prepare(process.Spec{Argv: c.Argv, ExtraFiles: c.Files})
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
