package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"codex.internal/pkg/sandbox/permissions"
)

// Permission bits of masks, as Codex CLI has them.
const (
	modeMasked    = 0o000 // a denied directory or file
	modeSearched  = 0o111 // a denied directory in which something is reopened
	modeProtected = 0o555 // a name of metadata that must not be created
	modeMissing   = 0o600 // another path that must not be created
)

// guard is a path that is protected or masked inside a writable root.
type guard struct {
	path string // its path without links
	mask bool
	kind MountKind
	mode uint32
	file bool
	// placeholder and perhaps are as in Mount.
	placeholder, perhaps bool
	// pattern means that a pattern matched the path. If a command moves the file, the pattern is
	// applied to its new name, and may intentionally no longer match.
	pattern bool
	// kernel means that it is a file system of the kernel, whatever its name.
	kernel bool
	// symlink is as in Mount.
	symlink bool
}

// mounts appends the masks outside writable roots, then each writable root with
// what is protected and masked in it (docs/spec/sandbox.md §7.2, steps 4 to 6).
func (p *planner) mounts() error {
	guards, err := p.guards()
	if err != nil {
		return err
	}
	pins := p.pins(guards)
	for i := range p.writable {
		p.mountRoot(&p.writable[i], guards[i], pins[i])
	}
	// Another entry may mask the name as well.
	p.plan.Undo = slices.DeleteFunc(p.plan.Undo, func(n UndoName) bool {
		return slices.ContainsFunc(p.plan.Mounts, func(m Mount) bool { return m.Target == n.Path })
	})
	return p.absences()
}

// guards appends the masks outside writable roots. It returns the protected and masked paths in
// each writable root.
func (p *planner) guards() ([][]guard, error) {
	guards := make([][]guard, len(p.writable))
	add := func(g guard) {
		if i := p.owner(g.path); i >= 0 && p.writable[i].info.Type == permissions.Dir && (g.mask || !ownDevice(g.path)) {
			guards[i] = append(guards[i], g)
		}
	}
	for i := range p.writable {
		if err := p.protectRoot(&p.writable[i], add); err != nil {
			return nil, err
		}
	}
	kernel, err := p.kernelMounts()
	if err != nil {
		return nil, err
	}
	for _, g := range kernel {
		add(g)
	}
	if err := p.protectRepositories(guards, add); err != nil {
		return nil, err
	}
	if err := p.guardAliases(guards, add); err != nil {
		return nil, err
	}
	for _, d := range p.denied {
		g, outside, err := p.masked(d)
		g.pattern = !slices.Contains(p.explicit, d)
		switch {
		case err != nil:
			return nil, err
		case outside:
			p.mask(g)
		default:
			add(g)
		}
	}
	return guards, nil
}

// mountRoot appends a writable root, the directories in it that must keep their names, and the
// protected and masked paths in it.
func (p *planner) mountRoot(w *writableRoot, guards []guard, pins []string) {
	if w.Effective != "/" {
		p.plan.Mounts = append(p.plan.Mounts, Mount{
			Kind: BindWritable, Source: w.Effective, Target: w.Effective, File: w.info.Type != permissions.Dir,
		})
	}
	for _, dir := range pins {
		p.plan.Mounts = append(p.plan.Mounts, Mount{Kind: BindWritable, Source: dir, Target: dir, Pin: true})
	}
	slices.SortStableFunc(guards, func(a, b guard) int {
		if a.mask != b.mask {
			if b.mask {
				return -1
			}
			return 1
		}
		return shallowFirst(a.path, b.path)
	})
	done := make(map[string]guard, len(guards))
	for _, g := range guards {
		// A path that a placeholder masks is hidden. A read-only path is visible.
		if o, ok := done[g.path]; ok && (o.mask == g.mask || g.placeholder) {
			continue
		}
		if done[g.path] = g; g.mask {
			p.mask(g)
		} else {
			p.protect(g)
		}
	}
}

// pins returns, for each writable root, the directories in it that must keep their names: those
// above a guarded path, and those above another writable root, up to the outermost writable root.
// They are mounted on themselves, because a mount point cannot be renamed. Otherwise a command
// could rename a directory above a workspace and put another workspace, with its own .git, in its
// place. Or it could give a denied file a name that the next command may read.
func (p *planner) pins(guards [][]guard) [][]string {
	pins := make([][]string, len(p.writable))
	seen := make(map[string]bool)
	above := func(name string) {
		for dir := path.Dir(name); dir != "/" && !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			i := p.owner(dir)
			if i < 0 {
				return
			}
			hidden := slices.ContainsFunc(guards[i], func(g guard) bool { return !g.pattern && permissions.Within(dir, g.path) })
			info, err := p.view.Lstat(dir)
			there := err == nil && info.Type == permissions.Dir
			if there && !hidden && !p.isWritable(dir) && !replaced(dir, p.writable[i].Effective) {
				pins[i] = append(pins[i], dir)
			}
		}
	}
	for i := range guards {
		for _, g := range guards[i] {
			if !g.pattern && !g.kernel {
				above(g.path)
			}
		}
	}
	// A path in a mask needs no guard.
	for _, name := range slices.Concat(p.named, p.explicit) {
		above(name)
	}
	for i := range pins {
		slices.SortFunc(pins[i], shallowFirst)
	}
	return pins
}

// replaced reports whether a view has its own directory in place of the host's: /dev or /proc.
func replaced(dir, root string) bool {
	return permissions.Within(dir, "/dev") && !permissions.Within(root, "/dev") || permissions.Within(dir, "/proc") && !permissions.Within(root, "/proc")
}

// kernelMounts returns the kernel's file systems in writable roots. A user who grants a directory,
// or everything, does not mean settings of the kernel. File systems that an entry names are not
// included. Nested ones are omitted, because a read-only mount includes everything below.
func (p *planner) kernelMounts() ([]guard, error) {
	host, ok := p.host.(interface{ KernelMounts() ([]string, error) })
	if !ok || len(p.writable) == 0 {
		return nil, nil
	}
	names, err := host.KernelMounts()
	if err != nil {
		return nil, err
	}
	var guards []guard
	for _, name := range names {
		i := p.owner(name)
		if i < 0 || p.writable[i].Effective == name || replaced(name, p.writable[i].Effective) ||
			slices.ContainsFunc(guards, func(g guard) bool { return permissions.Within(name, g.path) && p.owner(g.path) == i }) {
			continue
		}
		info, err := p.view.Lstat(name)
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", name, err)
		}
		guards = append(guards, guard{path: name, kind: BindReadOnly, file: info.Type != permissions.Dir, kernel: true})
	}
	return guards, nil
}

// protectRoot yields the read-only paths in a writable root.
func (p *planner) protectRoot(w *writableRoot, add func(guard)) error {
	if w.info.Type != permissions.Dir {
		return nil
	}
	for _, r := range w.ReadOnly {
		at := p.moved(w, r.Path)
		if r.ProjectRootsMetadata && p.missing(at) || p.foreignName(w, at) {
			continue
		}
		if r.Unmasked && p.missing(at) {
			dir, err := p.view.Lstat(path.Dir(at))
			if err != nil {
				return fmt.Errorf("look at %s: %w", path.Dir(at), err)
			}
			if name := (UndoName{Path: at, Dev: dir.Dev, Ino: dir.Ino}); !slices.Contains(p.plan.Undo, name) {
				p.plan.Undo = append(p.plan.Undo, name)
			}
			continue
		}
		if err := p.protected(at, add); err != nil {
			return err
		}
	}
	for _, name := range w.Names {
		full := path.Join(w.Effective, name)
		if name == ".git" && p.missing(full) && p.inWorkTree(w.Effective) || p.foreignName(w, full) {
			p.plan.Undo = append(p.plan.Undo, UndoName{Path: full, Dev: w.info.Dev, Ino: w.info.Ino})
			continue
		}
		if err := p.protected(full, add); err != nil {
			return err
		}
	}
	return nil
}

// protectRepositories yields the paths to which the .git of a writable root
// leads, unless a parent is already read-only.
func (p *planner) protectRepositories(guards [][]guard, add func(guard)) error {
	for _, at := range p.repository {
		real, err := permissions.EffectivePath(p.view, at)
		if errors.Is(err, fs.ErrPermission) && p.owner(real) < 0 {
			if link, _ := p.writableLink(at, whichever); link == "" {
				continue // the command cannot enter it either
			}
		}
		err = p.protected(at, func(g guard) {
			i := p.owner(g.path)
			if i < 0 || !slices.ContainsFunc(guards[i], func(o guard) bool {
				return !o.mask && o.kind == BindReadOnly && o.path != g.path && permissions.Within(g.path, o.path)
			}) {
				add(g)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// foreignName reports whether a path is a protected name of a writable root that all users share,
// and the file there belongs to another user. That user may exchange or remove the file at any
// time. So it cannot be used as a mount point, and must not prevent the sandbox from starting. The
// command cannot change the file, unless the directory belongs to its user. Files that the command
// creates there are removed.
func (p *planner) foreignName(w *writableRoot, at string) bool {
	return path.Dir(at) == w.Effective && slices.Contains(ProtectedNames, path.Base(at)) && permissions.Foreign(p.view, at)
}

// moved converts a path below a writable root to the same path below the root's target.
func (p *planner) moved(w *writableRoot, name string) string {
	if w.Path != w.Effective && permissions.Within(name, w.Path) {
		return path.Join(w.Effective, strings.TrimPrefix(name, w.Path))
	}
	return name
}

func (p *planner) missing(name string) bool {
	info, err := p.view.Lstat(name)
	return err == nil && info.Type == permissions.Missing
}

// inWorkTree reports whether a directory above is the top of a git work tree.
func (p *planner) inWorkTree(dir string) bool {
	for dir != "/" {
		dir = path.Dir(dir)
		git := path.Join(dir, ".git")
		info, err := p.view.Lstat(git)
		if err != nil || permissions.Foreign(p.view, git) {
			continue // git does not trust files that another user has put there
		}
		switch info.Type {
		case permissions.Dir:
			if !p.missing(git + "/HEAD") {
				return true
			}
		case permissions.Regular:
			text, err := p.view.ReadFile(git, 4096)
			if err == nil && strings.HasPrefix(strings.TrimSpace(string(text)), "gitdir:") {
				return true
			}
		}
	}
	return false
}

// protected yields the guard of a path that must not change.
func (p *planner) protected(name string, add func(guard)) error {
	link, err := p.writableLink(name, whichever)
	if err != nil {
		return err
	}
	if link != "" {
		return fmt.Errorf("cannot enforce sandbox read-only path %s because it crosses writable symlink %s", name, link)
	}
	real, info, err := p.effective(name)
	if err != nil {
		return err
	}
	if p.redirected(name, real) && !p.crossesKept(name) {
		return fmt.Errorf("cannot enforce sandbox read-only path %s because it crosses writable symlink %s", name, name)
	}
	if p.keptLink(name) {
		add(guard{path: name, kind: BindReadOnly, file: true, symlink: true})
		if p.isWritable(real) {
			return nil // an entry grants what it leads to
		}
	}
	if info.Type == permissions.Missing || info.Type == permissions.Symlink {
		// Scenario: a workspace's .git names /x/g, and /x is a link to a missing name in a writable
		// root.
		if real, _, err = permissions.MissingEnd(p.view, real); err == nil {
			real, info, err = p.effective(real)
		}
		if err != nil {
			return err
		}
	}
	if p.hidden(real) || info.Type == permissions.Symlink {
		p.named = append(p.named, real)
		return nil
	}
	g := guard{path: real, kind: BindReadOnly, file: info.Type != permissions.Dir}
	switch {
	case info.Type == permissions.Missing:
		if g = p.uncreated(real); p.vanished(real, g) {
			return &inconsistent{g.path}
		}
	case info.Size == 0 || info.Type == permissions.Dir:
		g.placeholder = true
	}
	add(g)
	return nil
}

// comesInto returns the first missing component of the path's target, if that component is in a
// writable root but the path itself is not. A command could create the target there. In any other
// case it returns "". The rest of the path may be as long as 40 links can make it.
func (p *planner) comesInto(name string, info permissions.Info) string {
	_, first, err := permissions.MissingEnd(p.view, name)
	if exists(info) || err != nil || first == "" || p.owner(name) >= 0 || p.owner(first) < 0 {
		return ""
	}
	return first
}

// hidden reports whether a path is denied, or is in the mask of a denied directory. Such a path
// needs no protection, and a placeholder for it would be created in a directory that must not be
// touched.
func (p *planner) hidden(name string) bool {
	for at := name; at != "/"; at = path.Dir(at) {
		if slices.Contains(p.denied, at) {
			return true
		}
		if slices.Contains(p.reopened, at) {
			return false
		}
	}
	return false
}

// vanished reports whether the directories above a writable root existed when the root was
// examined, but are missing when the guard of a path in the root is chosen. Without this check, a
// program that moves them away and back at that moment would leave the root writable and the path
// without a guard.
func (p *planner) vanished(name string, g guard) bool {
	i := p.owner(name)
	return i >= 0 && permissions.Within(p.writable[i].Effective, g.path) && (g.kind != BindReadOnly || g.path != p.writable[i].Effective)
}

// uncreated returns the guard that prevents a missing path from being created. It has a placeholder
// at the first missing component of the path.
func (p *planner) uncreated(name string) guard {
	first := name
	for at := range prefixes(name) {
		info, err := p.view.Lstat(at)
		if err == nil && info.Type == permissions.Missing {
			first = at
			break
		}
		if err == nil && info.Type != permissions.Dir && at != name {
			// A path below a file cannot exist as long as the file is not replaced.
			return guard{path: at, kind: BindReadOnly, file: true, placeholder: info.Size == 0}
		}
	}
	if slices.Contains(ProtectedNames, path.Base(first)) || slices.Contains(p.directories, first) {
		return guard{path: first, kind: EmptyDir, mode: modeProtected, placeholder: true}
	}
	return guard{path: first, kind: EmptyFile, mode: modeMissing, file: true, placeholder: true}
}

// deniedBetween reports whether another denied path is below outer and contains inner. Then inner
// is reopened in that path's mask.
func (p *planner) deniedBetween(outer, inner string) bool {
	return slices.ContainsFunc(p.denied, func(d string) bool {
		return d != outer && permissions.Within(d, outer) && permissions.Within(inner, d)
	})
}

// visible reports whether a view with an empty root shows a path.
func (p *planner) visible(name string) bool {
	return slices.ContainsFunc(p.reopened, func(r string) bool { return permissions.Within(name, r) })
}

// Shown returns the identity of the host's file at the target of a mount, if a view with the
// earlier mounts shows that file. If the view shows a mask, its own directory or an empty root
// there, it returns zero.
func (plan *Plan) Shown(i int) FileID {
	m := &plan.Mounts[i]
	if replaced(m.Target, "/") {
		return FileID{}
	}
	// Use the last mount, which hides earlier mounts below it. Scenario: /ws is writable, /ws/p is
	// denied, and /ws/p/pub is read-only. /ws/p/pub is mounted below the mask and again above it.
	var above *Mount
	for j := range plan.Mounts[:i] {
		if o := &plan.Mounts[j]; o.Kind != Link && permissions.Within(m.Target, o.Target) {
			above = o
		}
	}
	if above == nil && plan.Root == RootEmpty || above != nil && above.Kind != BindReadOnly && above.Kind != BindWritable {
		return FileID{}
	}
	return m.ID
}
