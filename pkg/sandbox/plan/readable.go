package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"codex.internal/pkg/sandbox/permissions"
)

// root chooses the base of the view, and shows the readable paths.
func (p *planner) root(policy *permissions.Policy) error {
	readable, err := p.readable(policy)
	if err != nil {
		return err
	}
	if p.reading {
		// Links have been checked.
		p.writable, p.repository = nil, nil
	}
	if p.isWritable("/") {
		p.plan.Root = RootWritable
		p.addReopened(readable)
		return nil
	}
	if policy.FullRead() || slices.ContainsFunc(readable, func(r readablePath) bool { return r.name == "/" }) {
		p.addReopened(readable)
		return nil
	}
	p.plan.Root = RootEmpty
	var links []Mount
	for _, r := range readable {
		links = p.links(links, r.name)
		p.plan.ListDev = p.plan.ListDev || r.real == "/dev"
		if p.isWritable(r.real) || ownDevice(r.real) || slices.Contains(p.denied, r.real) {
			continue
		}
		p.plan.Mounts = append(p.plan.Mounts, Mount{
			Kind: BindReadOnly, Source: r.real, Target: r.real, File: r.info.Type != permissions.Dir,
		})
	}
	for _, name := range policy.ReadablePaths() {
		// The readable roots may contain only one of two spellings of a path.
		links = p.links(links, name)
	}
	byTarget := func(a, b Mount) int { return strings.Compare(a.Target, b.Target) }
	same := func(a, b Mount) bool { return a.Target == b.Target }
	slices.SortFunc(p.plan.Mounts, byTarget)
	p.plan.Mounts = slices.CompactFunc(p.plan.Mounts, same)
	slices.SortFunc(links, byTarget)
	shown := p.plan.Mounts
	for _, l := range slices.CompactFunc(links, same) {
		// A mount shows its own links, and so do /dev and /proc.
		if p.owner(l.Target) < 0 && !permissions.Within(l.Target, "/dev") && !permissions.Within(l.Target, "/proc") &&
			!slices.ContainsFunc(shown, func(m Mount) bool { return permissions.Within(l.Target, m.Target) }) {
			p.plan.Mounts = append(p.plan.Mounts, l)
		}
	}
	p.addReopened(readable)
	return nil
}

// readablePath is a path of an entry, and its identity when it was examined.
type readablePath struct {
	name, real string
	info       permissions.Info
}

// readable returns the existing readable paths. Each path is examined once, and
// writable roots are the checked ones. Otherwise a command of another sandbox
// that exchanges a directory with a link could pass the checks with the
// directory, and have the link's target shown.
func (p *planner) readable(policy *permissions.Policy) (list []readablePath, err error) {
	roots := policy.ReadableRoots()
	for _, r := range roots {
		if i := slices.IndexFunc(p.writable, func(w writableRoot) bool { return w.Path == r }); i >= 0 {
			list = append(list, readablePath{r, p.writable[i].Effective, p.writable[i].info})
			continue
		}
		real, info, err := p.effective(r)
		if err != nil || !exists(info) {
			continue
		}
		link, err := p.writableLink(r, whichever)
		if err != nil {
			return nil, err
		}
		if p.redirected(r, real) {
			link = r
		}
		if link != "" && !slices.Contains(p.denied, real) {
			return nil, fmt.Errorf("cannot enforce sandbox read-only path %s because it crosses writable symlink %s", r, link)
		}
		list = append(list, readablePath{r, real, info})
	}
	for _, r := range policy.PlatformRoots() {
		// Scenario: /run may be written, and current-system does not exist in it: a command
		// may put a link there.
		if link, err := p.writableLink(r, whichever); err == nil && link != "" && !p.isWritable("/") {
			continue
		}
		if real, info, err := p.effective(r); err == nil && exists(info) {
			list = append(list, readablePath{r, real, info})
		}
	}
	return list, nil
}

// links appends the symbolic links that lead from a path to its target. An
// empty root must have them too: if the target were mounted in place of the
// link, it would exist twice, but be masked only once.
func (p *planner) links(links []Mount, name string) []Mount {
	for at := range prefixes(name) {
		info, err := p.view.Lstat(at)
		if err != nil || info.Type != permissions.Symlink {
			continue
		}
		dir, err := permissions.EffectivePath(p.view, path.Dir(at))
		target, err2 := p.view.Readlink(at)
		l := Mount{Kind: Link, Source: target, Target: path.Join(dir, path.Base(at))}
		if err != nil || err2 != nil || slices.ContainsFunc(links, func(o Mount) bool { return o.Target == l.Target }) {
			continue
		}
		if !path.IsAbs(target) {
			target = path.Join(dir, target)
		}
		links = p.links(append(links, l), path.Clean(target))
	}
	return links
}

func (p *planner) addReopened(readable []readablePath) {
	for _, r := range readable {
		if r.real != "/" && !slices.Contains(p.denied, r.real) {
			p.reopened = append(p.reopened, r.real)
		}
	}
	slices.SortFunc(p.reopened, shallowFirst)
	p.reopened = slices.Compact(p.reopened)
	p.dropHidden()
}

// dropHidden removes denied paths that are in the mask of another denied path, if no path between
// the two is reopened.
func (p *planner) dropHidden() {
	const denied, reopened = 1, 2
	is := make(map[string]int, len(p.denied)+len(p.reopened))
	for _, r := range p.reopened {
		is[r] = reopened
	}
	for _, d := range p.denied {
		is[d] = denied
	}
	p.denied = slices.DeleteFunc(p.denied, func(name string) bool {
		for name != "/" {
			name = path.Dir(name)
			if what := is[name]; what != 0 {
				return what == denied
			}
		}
		return false
	})
}
