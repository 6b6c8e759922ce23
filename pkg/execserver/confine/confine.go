package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/plan"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/wire/pathuri"
)

// Options configure how a server confines its requests.
type Options struct {
	Sandbox    runner.Options // the programs and the backend
	Log        *slog.Logger
	Supervisor *process.Supervisor // starts launchers and the janitor

	Home string // replaces ~ at the beginning of paths
	Cwd  string // the server's working directory, for a policy that names none

	// UnconfinedReaders permits clients that may only read without a sandbox, if none can be
	// made.
	UnconfinedReaders bool

	// HiddenPaths returns directories and files that no sandboxed request sees.
	HiddenPaths func() []string
	// PrivatePaths are files and directories of the server itself. Sandboxed requests do not
	// see those that exist. Landlock cannot hide paths: if it is the only mechanism,
	// PrivatePaths are hidden only with Sandbox.Stricter.
	PrivatePaths []string
	// RetainDir creates the directory of detached processes and returns its path, which is
	// another private path; "": there is none.
	RetainDir func() string
}

// Confiner confines the requests of a server. The first request that needs the runner.Runtime
// creates it, so that a new server listens without delay.
type Confiner struct {
	opts      Options
	launchers launcherPool
	janitor   janitorKeeper
	wg        sync.WaitGroup // counts launchers that are being started, and the start of the janitor

	once    sync.Once
	runtime *runner.Runtime
	err     error
	known   atomic.Pointer[string] // the name of the backend, "none" without one; nil: not probed yet
}

// New returns a Confiner. The caller must close it.
func New(o Options) *Confiner {
	c := &Confiner{opts: o}
	c.launchers.c, c.janitor.c = c, c
	return c
}

// Sandboxes returns the runtime. The first call probes the backends, and concurrent calls wait
// for the result. On a connection's reader, only initialize may call it. It logs the chosen
// backend once.
func (c *Confiner) Sandboxes() (*runner.Runtime, error) {
	c.once.Do(func() {
		backend := "none"
		defer func() { c.known.Store(&backend) }()
		opts := c.opts.Sandbox
		opts.Janitor = func() *os.File { return c.janitor.connect(c.runtime) }
		opts.Output, opts.Tasks = c.opts.Supervisor.Output, c.opts.Supervisor.CommandTasks
		c.runtime, c.err = runner.NewRuntime(opts)
		if c.err != nil {
			c.opts.Log.Warn("nothing can be confined here", "error", c.err)
			return
		}
		status := c.runtime.Status()
		backend = status.Backend
		c.opts.Log.Info("sandbox chosen", "backend", status.Backend, "reason", status.Reason)
		c.launchers.fill()
		c.wg.Go(func() {
			if f := opts.Janitor(); f != nil {
				_ = f.Close() // a janitor then exists before the first request
			}
		})
	})
	return c.runtime, c.err
}

// Enforcing is Sandboxes for a request that must be confined: the caller sends the error as the
// answer.
func (c *Confiner) Enforcing() (*runner.Runtime, error) {
	runtime, err := c.Sandboxes()
	if err != nil {
		return nil, unenforceable(err)
	}
	return runtime, nil
}

// Backend returns the name of the backend. It must not be called before Sandboxes.
func (c *Confiner) Backend() string {
	if runtime, err := c.Sandboxes(); err == nil {
		return runtime.Status().Backend
	}
	return "none"
}

// KnownBackend returns the name of the backend, or "" if no request has needed it yet.
func (c *Confiner) KnownBackend() string {
	if backend := c.known.Load(); backend != nil {
		return *backend
	}
	return ""
}

// Launcher returns an idle launcher, or nil. The caller starts a process with it.
func (c *Confiner) Launcher() *process.Standby { return c.launchers.take() }

// Close ends the idle launchers, and waits for launchers that are being started. No request may
// be running. The janitor ends with the supervisor.
func (c *Confiner) Close() {
	c.launchers.close()
	c.wg.Wait()
	c.once.Do(func() { c.err = errors.New("the server is shutting down") })
	if c.runtime != nil {
		c.runtime.Close()
	}
}

// Confine changes the spec of a command to that of a launcher, which runs the command in a
// sandbox. The caller must close the command after the start, and its Refusal after the end.
func (c *Confiner) Confine(confinement *runner.Confinement, spec *process.Spec) (*runner.Command, error) {
	runtime, err := c.Enforcing()
	if err != nil {
		return nil, err
	}
	if len(spec.Argv) == 0 {
		return nil, execproto.InvalidParams("argv must not be empty")
	}
	command, err := runtime.Process(*confinement, spec.Argv, spec.Arg0, spec.Env)
	if err != nil {
		return nil, execproto.SandboxPreparation.Answer(execproto.CodeInvalidParams, "failed to prepare process sandbox: "+err.Error())
	}
	spec.Argv, spec.Arg0, spec.Env, spec.ExtraFiles = command.Argv, &command.Arg0, command.Env, command.Files
	spec.ExitGracePeriod, spec.DetectDenial, spec.Standby = true, runner.Denied, c.launchers.take()
	return command, nil
}

// native decodes a path of a profile or a sandbox.
func (c *Confiner) native(text string) (string, error) { return pathuri.Parse(text, c.opts.Home) }

// decodeSandbox decodes the sandbox of a request. For a malformed sandbox it returns an error
// of the params; for an invalid path it returns the error that the function path makes.
func (c *Confiner) decodeSandbox(raw json.RawMessage, path func(string) error) (*permissions.Context, error) {
	ctx, err := permissions.DecodeContext(raw, c.native)
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

// workspaceOf converts the directories of a sandbox. cwdError and rootError make the errors.
func (c *Confiner) workspaceOf(ctx *permissions.Context, cwdError, rootError func(uri string, err error) error) (workspace, error) {
	var w workspace
	var err error
	if ctx.Cwd != "" {
		if w.cwd, err = c.native(ctx.Cwd); err != nil {
			return w, cwdError(ctx.Cwd, err)
		}
	}
	for _, uri := range ctx.WorkspaceRoots {
		root, err := c.native(uri)
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

// fileConfinement returns how a file system request must be confined; nil: not at all
// (docs/spec/sandbox.md §5.1). The profile does not yet hide the server's private paths.
func (c *Confiner) fileConfinement(raw json.RawMessage) (*runner.Confinement, error) {
	if raw == nil {
		return nil, nil
	}
	ctx, err := c.decodeSandbox(raw, execproto.InvalidRequest)
	if err != nil {
		return nil, err
	}
	w, err := c.workspaceOf(ctx,
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
		cwd = c.opts.Cwd
	}
	profile := w.profile(ctx, cwd)
	if !profile.ConfinesFiles() {
		return nil, nil
	}
	return &runner.Confinement{Profile: profile, PolicyCwd: cwd, CommandCwd: "/"}, nil
}

// unenforceable is the error of a request that this server cannot confine.
func unenforceable(err error) error {
	if errors.Is(err, runner.ErrUnenforceable) {
		return execproto.InvalidParams(err.Error())
	}
	return execproto.InvalidParams(fmt.Sprintf("%v: %v", runner.ErrUnenforceable, err))
}
