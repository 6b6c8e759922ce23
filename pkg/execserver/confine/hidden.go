package confine

import (
	"path/filepath"
	"slices"
	"strings"

	"codex.internal/pkg/sandbox/permissions"
)

// hideSecrets denies a profile the directories and files of the credentials that
// network proxies inject, and the server's own state. Entries for what is in them are dropped:
// a command that could read the file would not need the proxy. A profile that grants the
// whole file system is not changed, because it has no entries and its command is not confined
// to files. legacy says that Landlock's legacy mode enforces the profile. It looks at the disk.
func (c *Confiner) hideSecrets(p *permissions.Profile, legacy bool) {
	if p.Kind != permissions.Managed || p.FileSystem.Unrestricted {
		return // and nothing is made or probed
	}
	secrets := c.opts.HiddenPaths
	if !legacy {
		secrets = slices.Concat(secrets, c.ownState())
	}
	Hide(p, secrets)
}

// Hide denies a profile some paths, and drops its entries for what is in them. It changes no profile that grants the whole file
// system. It looks at the disk.
func Hide(p *permissions.Profile, secrets []string) {
	if p.Kind != permissions.Managed || p.FileSystem.Unrestricted || len(secrets) == 0 {
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
func (c *Confiner) ownState() []string {
	named := c.opts.PrivatePaths
	if dir := c.opts.RetainDir(); dir != "" {
		named = append(slices.Clone(named), dir)
	}
	if len(named) == 0 {
		return nil
	}
	if runtime, err := c.Sandboxes(); err != nil || !runtime.Status().Complete && !c.opts.Sandbox.Stricter {
		return nil
	}
	return Present(named)
}

// Present returns the real paths of those that exist, but for the kernel's.
func Present(named []string) (state []string) {
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

// GrantRead lets a profile read a file, and not write it.
func GrantRead(p *permissions.Profile, path string) {
	if p.Kind != permissions.Managed || p.FileSystem.Unrestricted {
		return
	}
	p.FileSystem.Entries = append(slices.Clone(p.FileSystem.Entries), permissions.Entry{
		Path: permissions.Path{Kind: permissions.Literal, Text: path}, Access: permissions.Read,
	})
}
