package execserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/plan"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/wire/pathuri"

	"golang.org/x/sync/semaphore"
)

// The values of sandboxType in the result of process/start.
const (
	sandboxNone  = "none"
	sandboxLinux = "linuxSeccomp"
)

// confiner holds the server's runner.Runtime. It is made with the first request
// that needs it, so that a server listens at once.
type confiner struct {
	once    sync.Once
	runtime *runner.Runtime
	err     error
	known   atomic.Pointer[string] // the backend, or none
}

// sandboxes returns the runtime. The first call probes the backends, and others
// wait for that meanwhile: only initialize may call it on a connection's reader.
// The choice of a backend is logged once.
func (srv *Server) sandboxes() (*runner.Runtime, error) {
	c := &srv.confiner
	c.once.Do(func() {
		backend := "none"
		defer func() { c.known.Store(&backend) }()
		opts := srv.opts.Sandbox
		opts.Janitor = func() *os.File { return srv.janitor.connect(c.runtime) }
		opts.Output, opts.Tasks = srv.supervisor.Output, srv.supervisor.CommandTasks
		c.runtime, c.err = runner.NewRuntime(opts)
		if c.err != nil {
			srv.log.Warn("nothing can be confined here", "error", c.err)
			return
		}
		status := c.runtime.Status()
		backend = status.Backend
		srv.log.Info("sandbox chosen", "backend", status.Backend, "reason", status.Reason)
		srv.launchers.fill()
		srv.wg.Go(func() {
			if f := opts.Janitor(); f != nil {
				_ = f.Close() // the first request finds a janitor
			}
		})
	})
	return c.runtime, c.err
}

// backend returns the name of what confines here. It must not be called before
// sandboxes was.
func (srv *Server) backend() string {
	if runtime, err := srv.sandboxes(); err == nil {
		return runtime.Status().Backend
	}
	return "none"
}

// close closes the runtime, if there is one, at the end of the server.
func (c *confiner) close() {
	c.once.Do(func() { c.err = errors.New("the server is shutting down") })
	if c.runtime != nil {
		c.runtime.Close()
	}
}

// native decodes a path of a profile or a sandbox.
func (srv *Server) native(text string) (string, error) { return pathuri.Parse(text, srv.home) }

// decodeSandbox decodes the sandbox of a request. It returns an error of the
// params if the sandbox is malformed, and the error of path for an invalid path.
func (srv *Server) decodeSandbox(raw json.RawMessage, path func(string) error) (*permissions.Context, error) {
	ctx, err := permissions.DecodeContext(raw, srv.native)
	var bad *permissions.PathError
	switch {
	case errors.As(err, &bad):
		return nil, path(bad.Error())
	case err != nil:
		return nil, execproto.InvalidParams(err.Error())
	}
	return ctx, nil
}

// workspace holds the directories that a sandbox names, as native paths.
type workspace struct {
	cwd   string // "": not named
	roots []string
}

// workspaceOf converts the directories of a sandbox; cwdError and rootError
// make the errors.
func (srv *Server) workspaceOf(ctx *permissions.Context, cwdError, rootError func(uri string, err error) error) (workspace, error) {
	var w workspace
	var err error
	if ctx.Cwd != "" {
		if w.cwd, err = srv.native(ctx.Cwd); err != nil {
			return w, cwdError(ctx.Cwd, err)
		}
	}
	for _, uri := range ctx.WorkspaceRoots {
		root, err := srv.native(uri)
		if err != nil {
			return w, rootError(uri, err)
		}
		w.roots = append(w.roots, root)
	}
	return w, nil
}

// profile returns the profile of a sandbox with project_roots replaced by paths:
// the workspace roots, or the cwd if there are none, as with clients of 0.142.0.
func (w workspace) profile(ctx *permissions.Context, cwd string) permissions.Profile {
	roots := w.roots
	if len(roots) == 0 {
		roots = []string{cwd}
	}
	return ctx.ProfileFor(cwd, plan.HostView{}).WithProjectRoots(roots)
}

// fileConfinement returns how a file system request must be confined; nil: not at
// all (docs/spec/sandbox.md §5.1). The profile does not hide yet what the server hides.
func (srv *Server) fileConfinement(raw json.RawMessage) (*runner.Confinement, error) {
	if raw == nil {
		return nil, nil
	}
	ctx, err := srv.decodeSandbox(raw, execproto.InvalidRequest)
	if err != nil {
		return nil, err
	}
	w, err := srv.workspaceOf(ctx,
		func(_ string, err error) error { return execproto.InvalidRequest(err.Error()) },
		func(_ string, err error) error {
			return execproto.InvalidRequest("file system sandbox workspace root is not native to this exec-server host: " + err.Error())
		})
	if err != nil {
		return nil, err
	}
	cwd := w.cwd
	if cwd == "" && len(w.roots) > 0 {
		cwd = w.roots[0]
	}
	if cwd == "" && ctx.Legacy == nil && ctx.Profile.NeedsCwd() {
		return nil, execproto.InvalidRequest("file system sandbox context with dynamic permissions requires cwd")
	}
	if cwd == "" {
		cwd = srv.cwd
	}
	profile := w.profile(ctx, cwd)
	if !profile.ConfinesFiles() {
		return nil, nil
	}
	return &runner.Confinement{Profile: profile, PolicyCwd: cwd, CommandCwd: "/"}, nil
}

// makeSandbox finds out how the process must be confined.
func makeSandbox(ctx context.Context, st *start) (err error) {
	if err := startCalls.Acquire(ctx, 1); err != nil {
		return err
	}
	defer startCalls.Release(1)
	st.confinement, err = st.sandbox.confinement()
	return err
}

// startCalls bounds the starts that look at the disk. They have a share of their own and do not wait for requests about files
// (files.Blocking). Threads belong to the program, so this counter does, too.
var startCalls = semaphore.NewWeighted(maxStartCalls)

// confinement returns how the process must be confined; nil: not at all. It looks at
// the disk, and the first call of a server probes the backends.
func (s *sandboxRequest) confinement() (*runner.Confinement, error) {
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
		// The launcher would do nothing but execute it.
		return nil, nil
	}
	if _, err := s.srv.enforcer(); err != nil {
		return nil, err
	}
	s.srv.hideSecrets(&profile, s.ctx.UseLegacyLandlock)
	return &runner.Confinement{
		Profile: profile, PolicyCwd: cwd, CommandCwd: s.dir,
		LegacyLandlock: s.ctx.UseLegacyLandlock, ManagedNetwork: s.managed, Within: writableWithin(s.ceiling),
	}, nil
}

// enforcer is sandboxes for a request that must be confined: its error is the answer.
func (srv *Server) enforcer() (*runner.Runtime, error) {
	runtime, err := srv.sandboxes()
	if err != nil {
		return nil, unenforceable(err)
	}
	return runtime, nil
}

// unenforceable is the error of a request that this server cannot confine.
func unenforceable(err error) error {
	if errors.Is(err, runner.ErrUnenforceable) {
		return execproto.InvalidParams(err.Error())
	}
	return execproto.InvalidParams(fmt.Sprintf("%v: %v", runner.ErrUnenforceable, err))
}

// confine makes of a spec that of the launcher, which runs it in a sandbox. The
// caller must close the command after the start, and its Refusal after the end.
func (srv *Server) confine(confinement *runner.Confinement, spec *process.Spec) (*runner.Command, error) {
	runtime, err := srv.enforcer()
	if err != nil {
		return nil, err
	}
	if len(spec.Argv) == 0 {
		return nil, execproto.InvalidParams("argv must not be empty")
	}
	command, err := runtime.Process(*confinement, spec.Argv, spec.Arg0, spec.Env)
	if err != nil {
		return nil, execproto.InvalidParams("failed to prepare process sandbox: " + err.Error())
	}
	spec.Argv, spec.Arg0, spec.Env, spec.ExtraFiles = command.Argv, &command.Arg0, command.Env, command.Files
	spec.ExitGracePeriod, spec.DetectDenial, spec.Standby = true, runner.Denied, srv.launchers.take()
	return command, nil
}

// hideSecrets denies a profile the directories and files of the credentials that
// network proxies inject, and the server's own state. Entries for what is in them are dropped:
// a command that could read the file would not need the proxy. A profile that grants the
// whole file system is not changed, because it has no entries and its command is not confined
// to files. legacy says that Landlock's legacy mode enforces the profile. It looks at the disk.
func (srv *Server) hideSecrets(p *permissions.Profile, legacy bool) {
	if p.Kind != permissions.Managed || p.FileSystem.Unrestricted {
		return
	}
	secrets := srv.secretPaths
	if !legacy {
		secrets = slices.Concat(secrets, srv.ownState())
	}
	if len(secrets) == 0 {
		return
	}
	entries := slices.DeleteFunc(slices.Clone(p.FileSystem.Entries), func(e permissions.Entry) bool {
		return e.Path.Kind == permissions.Literal && isIn(secrets, e.Path.Text)
	})
	for _, path := range secrets {
		entries = append(entries, permissions.Entry{Path: permissions.Path{Kind: permissions.Literal, Text: path}, Access: permissions.Deny})
	}
	p.FileSystem.Entries = entries
}

// ownState returns the real paths of what Options.PrivatePaths and RetainDir name and what
// exists of it. Scenario: a sandboxed command may read the home directory. There it reads
// what a detached process of another session has printed, or the token with which it
// connects to the server and runs commands without a sandbox.
//
// A missing path is left out: the sandbox would keep the command from creating it. So the
// directory of detached processes is made here, before the sandbox could see it come.
// Landlock, which cannot hide anything, would refuse each request: there ownState returns nothing,
// except with --sandbox-stricter.
func (srv *Server) ownState() []string {
	named := srv.opts.PrivatePaths
	if dir := srv.detached.Directory(); dir != "" {
		named = append(slices.Clone(named), dir)
	}
	if len(named) == 0 {
		return nil
	}
	if runtime, err := srv.sandboxes(); err != nil || !runtime.Status().Complete && !srv.opts.Sandbox.Stricter {
		return nil
	}
	var state []string
	for _, name := range named {
		// A link is followed now: the command may be able to replace it, but not what is hidden.
		real, err := filepath.EvalSymlinks(name)
		ofKernel := strings.HasPrefix(real, "/dev/") || strings.HasPrefix(real, "/proc/") // such as /dev/stdin
		if err == nil && !ofKernel && !slices.Contains(state, real) {
			state = append(state, real)
		}
	}
	return state
}

// isIn reports whether a path is, or leads by links to, one of the hidden paths or what
// is in it.
func isIn(secrets []string, path string) bool {
	paths := []string{path}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		paths = append(paths, real)
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		return slices.ContainsFunc(secrets, func(hidden string) bool { return isBelow(path, hidden) })
	})
}

// isBelow reports whether a clean path is a directory or names something in it.
func isBelow(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// grantRead lets a profile read a file, and not write it.
func grantRead(p *permissions.Profile, path string) {
	if p.Kind != permissions.Managed || p.FileSystem.Unrestricted {
		return
	}
	p.FileSystem.Entries = append(slices.Clone(p.FileSystem.Entries), permissions.Entry{
		Path: permissions.Path{Kind: permissions.Literal, Text: path}, Access: permissions.Read,
	})
}
