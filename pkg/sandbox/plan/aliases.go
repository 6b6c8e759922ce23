package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"codex.internal/pkg/sandbox/mountinfo"
	"codex.internal/pkg/sandbox/permissions"
)

// The same files can be mounted at several paths: containers mount volumes, and WSLg mounts / at
// /mnt/wslg/distro. A rule about one of the paths applies to the others. Without this, a command
// would read a denied file, or change a protected one, by another path.

// Mounts returns the mounts that this program sees.
func (HostView) Mounts() ([]mountinfo.Entry, error) {
	text, err := mountinfo.Read("self")
	if err != nil {
		return nil, fmt.Errorf("find the mounts: %w", err)
	}
	entries, err := mountinfo.Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("find the mounts: %w", err)
	}
	return entries, nil
}

// aliases finds the other paths of files.
type aliases struct {
	view   permissions.View
	mounts []mountinfo.Entry
	// shared are the mounts of each device that is mounted more than once.
	shared map[string][]*mountinfo.Entry
}

// aliases returns those of the host. A view without mounts has none.
func (p *planner) aliases() (*aliases, error) {
	a := &aliases{view: p.view, shared: make(map[string][]*mountinfo.Entry)}
	host, ok := p.host.(interface {
		Mounts() ([]mountinfo.Entry, error)
	})
	if !ok {
		return a, nil
	}
	var err error
	if a.mounts, err = host.Mounts(); err != nil {
		return nil, err
	}
	for i := range a.mounts {
		m := &a.mounts[i]
		a.shared[m.Device] = append(a.shared[m.Device], m)
	}
	return a, nil
}

// of returns the other paths at which the file of a path is, or files below it are. inner is the
// path below name that has the same file. The path contains no links. If it is missing, its
// directory counts.
func (a *aliases) of(name string, each func(alias, inner string)) {
	on := a.mountOf(name)
	if on == nil || len(a.shared[on.Device]) < 2 {
		return
	}
	at := path.Join(on.Root, strings.TrimPrefix(name, on.At)) // in the file system
	for _, o := range a.shared[on.Device] {
		alias, inner := o.At, name
		switch {
		case o == on:
			continue
		case permissions.Within(at, o.Root):
			alias = path.Join(o.At, strings.TrimPrefix(at, o.Root))
		// A mount point of a whole file system is denied because of the mount, as that of the
		// host in a container, and not because of each volume.
		case permissions.Within(o.Root, at) && !(name == on.At && on.Root == "/"):
			inner = path.Join(name, strings.TrimPrefix(o.Root, at))
		default:
			continue
		}
		// Below the path itself it is covered, and a path above it cannot be meant.
		if !permissions.Within(alias, name) && !permissions.Within(name, alias) && a.same(alias, inner) {
			each(alias, inner)
		}
	}
}

// mountOf returns the mount through which a path leads.
func (a *aliases) mountOf(name string) (on *mountinfo.Entry) {
	for i := range a.mounts {
		if m := &a.mounts[i]; permissions.Within(name, m.At) && (on == nil || len(m.At) >= len(on.At)) {
			on = m
		}
	}
	return on
}

// same reports whether two paths have the same file. If a is missing, it reports whether it would
// have: whether both are in the same directory.
func (a *aliases) same(one, two string) bool {
	if one == "/" || two == "/" {
		return false
	}
	x, err := a.view.Lstat(one)
	y, err2 := a.view.Lstat(two)
	if err != nil || err2 != nil {
		return false
	}
	if x.Type == permissions.Missing && y.Type == permissions.Missing && path.Base(one) == path.Base(two) {
		return a.same(path.Dir(one), path.Dir(two))
	}
	return x.Type != permissions.Missing && x.Dev == y.Dev && x.Ino == y.Ino
}

// denyAliases denies the other paths of denied files. A path that an entry grants by name is not
// denied for a file above it.
func (p *planner) denyAliases(policy *permissions.Policy) error {
	if len(p.denied) == 0 {
		return nil
	}
	others, err := p.aliases()
	if err != nil {
		return err
	}
	for _, name := range slices.Clone(p.denied) {
		others.of(name, func(alias, inner string) {
			if replaced(alias, "/") || inner != name && (policy.Access(inner).CanRead() || slices.Contains(policy.ReadablePaths(), alias)) {
				return
			}
			p.denied = append(p.denied, alias)
			if slices.Contains(p.explicit, name) {
				p.explicit = append(p.explicit, alias)
			}
		})
	}
	return nil
}

// guardAliases adds the guards of protected files at their other paths in writable roots.
func (p *planner) guardAliases(guards [][]guard, add func(guard)) error {
	all := slices.Concat(guards...)
	if len(all) == 0 {
		return nil
	}
	others, err := p.aliases()
	if err != nil {
		return err
	}
	for _, g := range all {
		if g.mask || g.kernel {
			continue
		}
		others.of(g.path, func(alias, inner string) {
			i := p.owner(alias)
			if i < 0 || p.isWritable(alias) || slices.ContainsFunc(guards[i], func(o guard) bool {
				return o.path == alias || o.kind == BindReadOnly && permissions.Within(alias, o.path)
			}) {
				return
			}
			other := g
			if other.path = alias; inner != g.path {
				info, err := p.view.Lstat(alias)
				other = guard{path: alias, kind: BindReadOnly, file: err == nil && info.Type != permissions.Dir}
			}
			add(other)
		})
	}
	return nil
}
