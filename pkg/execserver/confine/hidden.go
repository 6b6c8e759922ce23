package confine

import (
	"path/filepath"
	"slices"
	"strings"

	"codex.internal/pkg/sandbox/permissions"
)

// hideSecrets changes a profile so that it denies the directories and files with credentials
// that network proxies inject, and the server's own state. It drops entries for paths inside
// them: a command that could read such a file would not need the proxy. It does not change a
// profile that grants the whole file system, because such a profile has no entries and does not
// restrict files. legacy means that Landlock's legacy mode enforces the profile. hideSecrets
// reads the disk.
func (c *Confiner) hideSecrets(p *permissions.Profile, legacy bool) {
	if p.Kind != permissions.Managed || p.FileSystem.Unrestricted {
		return // the state is then neither created nor probed
	}
	secrets := c.opts.HiddenPaths()
	if !legacy {
		secrets = slices.Concat(secrets, c.ownState())
	}
	Hide(p, secrets)
}

// Hide changes a profile so that it denies some paths, and drops its entries for paths inside
// them. It does not change a profile that grants the whole file system. It reads the disk.
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

// ownState returns the real paths of those of Options.PrivatePaths and RetainDir that exist.
// Scenario: a sandboxed command may read the home directory. There it reads the output of a
// detached process of another session, or the token of the server. With the token, it connects
// to the server and runs commands without a sandbox.
//
// A missing path is omitted, because the sandbox would keep the command from creating it.
// Therefore ownState creates the directory of detached processes: the path must exist before
// the sandbox is made. Landlock cannot hide paths, and would refuse each request. With
// Landlock, ownState returns nothing, except with --sandbox-stricter.
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

// Present returns the real paths of the named files that exist, without those in the kernel's
// file systems.
func Present(named []string) (state []string) {
	for _, name := range named {
		// Resolve links now: the command may be able to replace a link, but not the hidden file
		// that it leads to.
		real, err := filepath.EvalSymlinks(name)
		ofKernel := strings.HasPrefix(real, "/dev/") || strings.HasPrefix(real, "/proc/") // such as /dev/stdin
		if err == nil && !ofKernel && !slices.Contains(state, real) {
			state = append(state, real)
		}
	}
	return state
}

// isIn reports whether a path is one of the hidden paths or inside one, directly or through
// links.
func isIn(secrets []string, path string) bool {
	paths := []string{path}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		paths = append(paths, real)
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		return slices.ContainsFunc(secrets, func(hidden string) bool { return isBelow(path, hidden) })
	})
}

// isBelow reports whether a clean path is dir itself or a path below dir.
func isBelow(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// GrantRead changes a profile so that it permits reading a file, and not writing it.
func GrantRead(p *permissions.Profile, path string) {
	if p.Kind != permissions.Managed || p.FileSystem.Unrestricted {
		return
	}
	p.FileSystem.Entries = append(slices.Clone(p.FileSystem.Entries), permissions.Entry{
		Path: permissions.Path{Kind: permissions.Literal, Text: path}, Access: permissions.Read,
	})
}
