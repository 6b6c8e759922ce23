package confine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/plan"
	"codex.internal/pkg/sandbox/runner"

	"golang.org/x/sync/semaphore"
)

// Process is the decoded sandbox of a process/start.
type Process struct {
	c       *Confiner
	ctx     *permissions.Context
	w       workspace
	dir     string // working directory of the command
	managed bool   // enforceManagedNetwork
	ceiling *wsauth.Ceiling
}

// Decode decodes the sandbox of a process/start. dir is the working directory of the command.
// managed means that a proxy is the command's only network.
func (c *Confiner) Decode(raw json.RawMessage, dir string, managed bool, ceiling *wsauth.Ceiling) (*Process, error) {
	unprepared := func(text string) error {
		return execproto.SandboxPreparation.Answer(execproto.CodeInvalidParams, text)
	}
	ctx, err := c.decodeSandbox(raw, unprepared)
	if err != nil {
		return nil, err
	}
	if ctx.WindowsSandboxLevel == permissions.WindowsMXC {
		return nil, execproto.SandboxUnavailable.Answer(execproto.CodeInvalidParams, "native MXC is unavailable on this executor")
	}
	notHere := func(what string) func(string, error) error {
		return func(uri string, err error) error {
			return unprepared(fmt.Sprintf("%s URI `%s` is not valid on this exec-server host: %v", what, observe.Short(uri), err))
		}
	}
	w, err := c.workspaceOf(ctx, notHere("sandbox cwd"), notHere("sandbox workspace root"))
	if err != nil {
		return nil, err
	}
	return &Process{c: c, ctx: ctx, w: w, dir: dir, managed: managed, ceiling: ceiling}, nil
}

// startCalls bounds the starts that read the disk. They have their own limit and do not wait
// for file requests (files.Blocking). It is global because all servers of the program share its
// threads.
var startCalls = semaphore.NewWeighted(maxStartCalls)

// Confinement returns how the process must be confined; nil: not at all. It reads the disk, and
// the first call of a server probes the backends.
func (s *Process) Confinement(ctx context.Context) (*runner.Confinement, error) {
	if err := startCalls.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer startCalls.Release(1)
	return s.confinement()
}

func (s *Process) confinement() (*runner.Confinement, error) {
	cwd := s.w.cwd
	if cwd == "" {
		cwd = s.dir
	}
	profile := s.w.profile(s.ctx, cwd)
	profile, err := s.underCeiling(profile, cwd)
	if err != nil {
		return nil, err
	}
	if profile.Kind == permissions.Disabled && !s.managed {
		// The launcher would only execute the command.
		return nil, nil
	}
	if _, err := s.c.Enforcing(); err != nil {
		return nil, err
	}
	s.c.hideSecrets(&profile, s.ctx.UseLegacyLandlock)
	return &runner.Confinement{
		Profile: profile, PolicyCwd: cwd, CommandCwd: s.dir,
		LegacyLandlock: s.ctx.UseLegacyLandlock, ManagedNetwork: s.managed, Within: writableWithin(s.ceiling),
	}, nil
}

// underCeiling returns the profile of a process, or an error if the profile permits more than
// the ceiling. The launcher checks links that change later: see Confinement.Within. Of the
// temporary directories only /tmp may be writable, because the client chooses the value of
// $TMPDIR.
func (s *Process) underCeiling(profile permissions.Profile, cwd string) (permissions.Profile, error) {
	c := s.ceiling
	if !c.ConfinesProcesses() {
		return profile, nil
	}
	profile.FileSystem.Entries = slices.DeleteFunc(slices.Clone(profile.FileSystem.Entries), func(e permissions.Entry) bool {
		return e.Path.Kind == permissions.Tmpdir && e.Access == permissions.Write
	})
	return profile, s.checkCeiling(profile, cwd)
}

func (s *Process) checkCeiling(profile permissions.Profile, cwd string) error {
	c := s.ceiling
	switch {
	case profile.Kind != permissions.Managed || profile.FullWrite():
		return tooWeak(c, "the sandbox permits everything")
	case profile.Network == permissions.NetworkEnabled:
		return tooWeak(c, "the sandbox has the network")
	case s.ctx.UseLegacyLandlock:
		return tooWeak(c, "useLegacyLandlock does not protect the paths that a sandbox protects")
	case c.MaxSandbox == wsauth.SandboxReadOnly && profile.FileSystem.Writes():
		return tooWeak(c, "the sandbox permits writing")
	}
	scope := permissions.Scope{Cwd: cwd, Within: writableWithin(c)}
	_, err := plan.Make(profile, scope, plan.HostView{}, false)
	if outside, ok := errors.AsType[*plan.OutsideError](err); ok {
		return tooWeak(c, outside.Error())
	}
	return nil // the launcher reports other errors
}
