package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/runner"
)

// backends asks the launcher which backends work, and has each enforce what
// it can.
func (e *examination) backends() {
	runtime, err := runner.NewRuntime(runner.Options{Self: true})
	if err != nil {
		e.note("The sandbox's launcher was not found (%v), so nothing can be confined; install codex again.", err)
		return
	}
	defer runtime.Close()
	results, err := runtime.Probe()
	if err != nil {
		e.note("The sandbox's launcher does not work (%v), so nothing can be confined.", err)
		return
	}
	for _, p := range results {
		b := Backend{Name: p.Name, Works: p.Works, Reason: p.Reason}
		if b.Works && e.dir != "" {
			e.enforce(&b)
		}
		e.report.Backends = append(e.report.Backends, b)
	}
	if own := e.report.Backends; slices.ContainsFunc(own, workspaceWrites) && !slices.ContainsFunc(own, redirects) {
		e.note("In a sandbox with a network proxy, programs that know no proxy reach no host. That needs the backend namespaces " +
			"or bwrap, and what connections to a command's own Unix sockets need.")
	}
	e.report.Auto.Reason = strings.TrimSuffix(runtime.Status().Reason, "; ")
}

func workspaceWrites(b Backend) bool { return b.WorkspaceWrite }

// redirects reports whether connections that go past a network proxy are redirected
// to it: the launcher makes them, as those to a command's own Unix sockets.
func redirects(b Backend) bool { return b.Name != landlockName && b.WorkspaceWrite && b.OwnSockets }

// enforce has a backend enforce both policies, and looks at the outcome.
func (e *examination) enforce(b *Backend) {
	var reason string
	b.ReadOnly, reason = e.confine(b, "read-only", false)
	if !b.ReadOnly {
		b.Reason = reason
		return
	}
	if b.Name == landlockName {
		b.Reason = "enforces read-only policies only: it cannot protect .git, .agents and .codex below what may be written"
		return
	}
	if b.WorkspaceWrite, reason = e.confine(b, "workspace-write", true); !b.WorkspaceWrite {
		b.Reason = reason
	} else if !b.OwnSockets {
		e.note("With %s, a command without a network cannot connect to Unix sockets by their paths, not even to its own. It needs Linux 5.19, "+
			"the kernel's module unix_diag and the call pidfd_getfd, and a system in which no other program supervises system calls of this one.", b.Name)
	}
}

// confine runs a probe in a sandbox and reports whether it could do what it
// may, and nothing else; if not, what was wrong.
func (e *examination) confine(b *Backend, policy string, write bool) (bool, string) {
	backend := b.Name
	wrong := func(err error) (bool, string) { return false, "try a " + policy + " policy: " + err.Error() }
	dir := filepath.Join(e.dir, backend+"-"+policy)
	at := attemptsIn(dir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return wrong(err)
	}
	if err := at.make(); err != nil {
		return wrong(err)
	}
	profile := permissions.Profile{Kind: permissions.Managed}
	profile.FileSystem.Entries = []permissions.Entry{{Path: permissions.Path{Kind: permissions.Root}, Access: permissions.Read}}
	want := []string{didRead}
	if write {
		profile.FileSystem.Entries = append(profile.FileSystem.Entries,
			permissions.Entry{Path: permissions.Path{Kind: permissions.Literal, Text: at.workspace}, Access: permissions.Write})
		want = append(want, didWrite)
	}
	runtime, err := runner.NewRuntime(runner.Options{Self: true, Backend: backend})
	if err != nil {
		return wrong(err)
	}
	defer runtime.Close()
	self, err := os.Executable()
	if err != nil {
		return wrong(err)
	}
	command, err := runtime.Process(runner.Intent{Profile: profile, PolicyCwd: at.workspace, CommandCwd: at.workspace},
		[]string{self, Arg, "confined", dir}, nil, []string{"PATH=/usr/bin:/bin"})
	if err != nil {
		return wrong(err)
	}
	defer command.Close()
	defer command.Refusal.Close()
	o := e.run(command.Argv[0], append([]string{command.Arg0}, command.Argv[1:]...), command.Env, command.Files, nil)
	if o.failed() {
		return wrong(errors.New(o.String()))
	}
	b.OwnSockets = slices.Contains(o.Did, didOwnSockets)
	for _, did := range o.Did {
		if did != didOwnSockets && !slices.Contains(want, did) {
			return wrong(errors.New("the command could " + did))
		}
	}
	for _, did := range want {
		if !slices.Contains(o.Did, did) {
			return wrong(errors.New("the command could not " + did))
		}
	}
	return true, ""
}
