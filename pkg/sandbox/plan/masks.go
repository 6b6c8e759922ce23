package plan

import (
	"fmt"
	"slices"
	"strings"

	"codex.internal/pkg/sandbox/permissions"
)

// masked is the guard of a denied path, and whether it lies outside of every
// writable root.
func (p *planner) masked(name string) (g guard, outside bool, err error) {
	info, err := p.view.Lstat(name)
	if err != nil {
		return g, false, fmt.Errorf("look at %s: %w", name, err)
	}
	outside = p.owner(name) < 0
	switch info.Type {
	case permissions.Missing:
		p.absent = append(p.absent, name) // it may have existed a moment ago
		if g = p.uncreated(name); p.vanished(name, g) {
			return g, outside, &inconsistent{g.path}
		}
		if g.kind != BindReadOnly {
			g.kind, g.mode, g.file, g.mask = EmptyFile, modeMasked, true, true
		}
		return g, p.owner(g.path) < 0, nil
	case permissions.Dir:
		return guard{path: name, mask: true, kind: EmptyDir, mode: modeMasked, perhaps: !outside}, outside, nil
	default:
		return guard{path: name, mask: true, kind: EmptyFile, mode: modeMasked, file: true, perhaps: !outside && info.Type == permissions.Regular && info.Size == 0}, outside, nil
	}
}

func (p *planner) protect(g guard) {
	m := Mount{Kind: g.kind, Target: g.path, Mode: g.mode, File: g.file, Placeholder: g.placeholder, Symlink: g.symlink}
	if g.kind == BindReadOnly {
		m.Source = g.path
	}
	p.plan.Mounts = append(p.plan.Mounts, m)
}

// mask appends a mask, and the paths that are reopened in it.
func (p *planner) mask(g guard) {
	if (g.placeholder || g.kind == BindReadOnly) && p.owner(g.path) < 0 || p.plan.Root == RootEmpty && !p.visible(g.path) {
		return
	}
	m := Mount{Kind: g.kind, Target: g.path, Mode: g.mode, File: g.file, Placeholder: g.placeholder, Perhaps: g.perhaps}
	var again []Mount
	if g.kind == EmptyDir {
		for _, r := range p.reopened {
			if r == g.path || !permissions.Within(r, g.path) || p.deniedBetween(g.path, r) {
				continue
			}
			info, err := p.view.Lstat(r)
			if err != nil || info.Type == permissions.Missing {
				continue
			}
			m.Mode = modeSearched
			m.MountPoints = appendMountPoints(m.MountPoints, strings.TrimPrefix(r[len(g.path):], "/"), info.Type != permissions.Dir)
			if p.owner(r) < 0 || p.owner(r) == p.owner(g.path) {
				again = append(again, Mount{Kind: BindReadOnly, Source: r, Target: r, File: info.Type != permissions.Dir})
			}
		}
	}
	p.plan.Mounts = append(append(p.plan.Mounts, m), again...)
}

// appendMountPoints adds a path and its parents to the mount points of a mask, unless they
// are there.
func appendMountPoints(points []MountPoint, name string, file bool) []MountPoint {
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		h := MountPoint{Path: name[:i], File: file && i == len(name)}
		if !slices.ContainsFunc(points, func(o MountPoint) bool { return o.Path == h.Path }) {
			points = append(points, h)
		}
	}
	return points
}
