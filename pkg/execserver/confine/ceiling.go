package confine

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/plan"
	"codex.internal/pkg/sandbox/runner"
)

// The ceilings of a token (docs/spec/wire.md §1.7) apply to all requests. A file request gets what
// its own sandbox and the ceiling both permit. A process/start is refused if its sandbox permits
// more than the ceiling.

// writableWithin returns the directory that must contain all writable paths of a sandbox.
func writableWithin(c *wsauth.Ceiling) string {
	if c.ConfinesProcesses() {
		return c.Dir
	}
	return ""
}

// FileConfinement returns how a file request must be confined whose params have the given
// sandbox and whose client has the given grant; nil: not at all. It reads the disk.
func (c *Confiner) FileConfinement(grant *wsauth.Grant, raw json.RawMessage) (*runner.Confinement, error) {
	confinement, err := c.fileConfinement(raw)
	if err != nil {
		return nil, err
	}
	ceiling := &grant.Ceiling
	reader, err := c.confinesReader(grant)
	if err != nil {
		return nil, err
	}
	if !ceiling.ConfinesFiles() && !reader {
		if confinement != nil {
			c.hideSecrets(&confinement.Profile, false)
		}
		return confinement, nil
	}
	access, dir := permissions.Write, ceiling.Dir
	if ceiling.MaxSandbox == wsauth.SandboxReadOnly || !grant.Role.Allows(wsauth.RoleRun) {
		access = permissions.Read
	}
	if dir == "" {
		dir = "/"
	}
	if confinement == nil {
		confinement = &runner.Confinement{Profile: permissions.Profile{Kind: permissions.Managed}, PolicyCwd: dir, CommandCwd: "/"}
		confinement.Profile.FileSystem.Entries = []permissions.Entry{{Path: permissions.Path{Kind: permissions.Root}, Access: permissions.Write}}
	}
	c.hideSecrets(&confinement.Profile, false)
	scope := permissions.Scope{Cwd: confinement.PolicyCwd, Tmpdir: os.Getenv("TMPDIR")}
	granted := permissions.Resolve(confinement.Profile.FileSystem, scope, plan.HostView{}).Access(dir)
	confinement.Profile.FileSystem.Entries = intersect(confinement.Profile.FileSystem.Entries, dir, access, granted)
	if dir != "/" {
		confinement.Within = dir
	}
	return confinement, nil
}

// confinesReader reports whether requests must be confined because their client may only read.
// The server's process has access to data that no such client may read: other clients' tokens,
// and its open files. Therefore a helper with a /proc of its own carries out the requests.
func (c *Confiner) confinesReader(grant *wsauth.Grant) (bool, error) {
	if grant.Role.Allows(wsauth.RoleRun) {
		return false, nil
	}
	_, err := c.Sandboxes()
	switch {
	case err == nil:
		return true, nil
	case c.opts.UnconfinedReaders:
		return false, nil
	default:
		return false, execproto.InvalidRequest(fmt.Sprintf("the role read needs a sandbox for files, and this server can make none: %v; "+
			"its option --allow-unconfined-readers lets such tokens read without one", err))
	}
}

// intersect returns the entries that grant what both the given entries and a ceiling permit:
// access to a directory and everything below. granted is the access that the given entries
// permit for the directory.
func intersect(entries []permissions.Entry, dir string, access, granted permissions.Access) []permissions.Entry {
	lower := func(a permissions.Access) permissions.Access {
		if a == permissions.Write {
			return access
		}
		return a
	}
	at := permissions.Path{Text: dir}
	if dir == "/" {
		at = permissions.Path{Kind: permissions.Root}
	}
	real, _ := permissions.EffectivePath(plan.HostView{}, dir)
	if dir != "/" && granted == permissions.Write && slices.ContainsFunc(entries, protectsByName) {
		granted = permissions.Read // entries that restrict a part of dir are omitted below
	}
	var both []permissions.Entry
	if granted.CanRead() {
		both = append(both, permissions.Entry{Path: at, Access: lower(granted)})
	}
	for _, e := range entries {
		if e.Path.Kind == permissions.Literal {
			e.Path.Text = spelledIn(e.Path.Text, dir, real)
		}
		inside := e.Path.Kind == permissions.Literal && strings.HasPrefix(e.Path.Text, strings.TrimSuffix(dir, "/")+"/") ||
			dir == "/" && e.Path.Kind != permissions.Root && e.Path.Kind != permissions.Glob
		switch {
		case e.Access == permissions.Deny:
			both = append(both, e)
		case inside:
			both = append(both, permissions.Entry{Path: e.Path, Access: lower(e.Access)})
		}
	}
	return both
}

// protectsByName reports whether an entry makes a path read-only that it names by its purpose,
// such as the project, and that is below a writable directory.
func protectsByName(e permissions.Entry) bool {
	return e.Access == permissions.Read && e.Path.Kind != permissions.Literal && e.Path.Kind != permissions.Root
}

// spelledIn converts a path that leads into a directory to a path below the directory's own
// name, so that a denying entry applies there whatever links the entry names. It returns other
// paths unchanged.
func spelledIn(name, dir, realDir string) string {
	if strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/") {
		return name
	}
	real, err := permissions.EffectivePath(plan.HostView{}, name)
	if err != nil {
		return name
	}
	if rest, ok := strings.CutPrefix(real, strings.TrimSuffix(realDir, "/")+"/"); ok {
		return path.Join(dir, rest)
	}
	return name
}

// tooWeak is the error of a start whose sandbox permits more than the ceiling.
func tooWeak(c *wsauth.Ceiling, why string) error {
	return observe.Forbid(observe.ByCeiling, execproto.InvalidParams(fmt.Sprintf("%s, and the ceiling of this token is --max-sandbox %s; "+
		"ask for a stricter sandbox, or use a token with a higher ceiling", why, c.MaxSandbox)))
}

// liesIn returns an error unless a directory is inside another one. It follows links as the
// kernel does, beginning at a descriptor of the other directory.
func liesIn(name, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	relative, err := filepath.Rel(dir, path.Clean(name))
	if err != nil {
		return err
	}
	if _, err = root.Stat(relative); err == nil {
		return nil
	}
	// name may be a path through a link outside of dir.
	realDir, e1 := filepath.EvalSymlinks(dir)
	realName, e2 := filepath.EvalSymlinks(name)
	if e1 != nil || e2 != nil {
		return err
	}
	if relative, e1 = filepath.Rel(realDir, realName); e1 != nil {
		return err
	}
	_, err = root.Stat(relative)
	return err
}

// CheckStart returns an error if the params exceed the ceiling of the client. It does not check
// the profile: Process.Confinement does. cwd is the native working directory.
func CheckStart(ceiling *wsauth.Ceiling, p *execproto.StartParams, cwd string) error {
	if ceiling.Dir != "" {
		if err := liesIn(cwd, ceiling.Dir); err != nil {
			return observe.Forbid(observe.ByCeiling, execproto.InvalidParams(fmt.Sprintf("the working directory %s must lie in %s, to which this token is confined (--cwd): %v",
				observe.Short(cwd), ceiling.Dir, err)))
		}
	}
	switch {
	case !ceiling.ConfinesProcesses():
		return nil
	case p.Sandbox == nil:
		return tooWeak(ceiling, "the process has no sandbox")
	case p.NetworkProxy != nil || p.ManagedNetwork != nil || p.EnforceManagedNetwork:
		return tooWeak(ceiling, "the sandbox has the network, by a proxy")
	}
	return nil
}
