package permissions

import (
	"path"
	"slices"
)

// Intersect returns what of a grant answers a request: the granted entries that
// the request covers, the denied ones of both where they overlap these, and
// the network if both enable it. What depends on the working directory becomes
// concrete.
func Intersect(requested, granted AdditionalProfile, scope Scope, view View) AdditionalProfile {
	var both AdditionalProfile
	if requested.enabled() && granted.enabled() {
		both.Network = granted.Network
	}
	if requested.FileSystem == nil || granted.FileSystem == nil {
		return both
	}
	request := Resolve(*requested.FileSystem, scope, view)
	kept := FileSystem{}
	add := func(e Entry) {
		if !slices.Contains(kept.Entries, e) {
			kept.Entries = append(kept.Entries, e)
		}
	}
	for _, e := range granted.FileSystem.concrete(scope) {
		if e.Access.CanRead() && request.covers(e, scope) {
			add(e)
		}
	}
	if len(kept.Entries) == 0 {
		return both
	}
	grants := Resolve(kept, scope, view)
	for _, side := range [...]*FileSystem{requested.FileSystem, granted.FileSystem} {
		for _, e := range side.concrete(scope) {
			if e.Access == Deny && grants.overlaps(e, scope) {
				add(e)
			}
		}
	}
	kept.GlobScanMaxDepth = kept.depthOf(*requested.FileSystem, *granted.FileSystem)
	both.FileSystem = &kept
	return both
}

func (a AdditionalProfile) enabled() bool { return a.Network != nil && *a.Network == NetworkEnabled }

// concrete returns the entries with those replaced that depend on the working
// directory or the project roots.
func (fs FileSystem) concrete(scope Scope) []Entry {
	p := Profile{Kind: Managed, FileSystem: fs}.WithProjectRoots(scope.roots())
	entries := slices.Clone(p.FileSystem.Entries)
	for i, e := range entries {
		if e.Path.Kind == Glob && !path.IsAbs(e.Path.Text) && scope.Cwd != "" {
			entries[i].Path.Text = joinGlob(scope.Cwd, e.Path.Text)
		}
	}
	return entries
}

// covers reports whether the policy of a request asks for an entry: all its
// paths are at least as accessible, and no pattern denies them.
func (p *Policy) covers(e Entry, scope Scope) bool {
	if e.Path.Kind == Minimal {
		return slices.ContainsFunc(p.fs.Entries, func(r Entry) bool {
			return r.Path.Kind == Minimal && r.Access.CanRead() && (r.Access == Write || e.Access == Read)
		})
	}
	paths := e.Path.resolve(scope, p.view)
	for _, at := range paths {
		access := p.Access(at)
		if !access.CanRead() || e.Access == Write && access != Write || p.DeniesRead(at) {
			return false
		}
	}
	return len(paths) > 0
}

// overlaps reports whether a denied entry and a grant of the policy have
// something in common, by either spelling.
func (p *Policy) overlaps(e Entry, scope Scope) bool {
	var paths []string
	switch e.Path.Kind {
	case Glob:
		pattern := compileGlob(e.Path.Text)
		if pattern.err != nil {
			return true
		}
		for _, prog := range pattern.programs {
			paths = append(paths, prog.searchRoot())
		}
	case Minimal:
		return p.platformDefaults()
	default:
		paths = e.Path.resolve(scope, p.view)
	}
	return slices.ContainsFunc(paths, func(at string) bool {
		effective, _ := EffectivePath(p.view, at)
		return slices.ContainsFunc(p.entries, func(g resolved) bool {
			return within(at, g.path) || within(g.path, at) ||
				within(effective, g.effective) || within(g.effective, effective)
		})
	})
}

// depthOf is the depth for the patterns of sides that fs is made of: the larger,
// or none if a side that has patterns has none.
func (fs FileSystem) depthOf(sides ...FileSystem) int {
	depth := 0
	for _, side := range sides {
		if !fs.hasDenyGlob() || !side.hasDenyGlob() {
			continue
		}
		if side.GlobScanMaxDepth == 0 {
			return 0
		}
		depth = max(depth, side.GlobScanMaxDepth)
	}
	return depth
}
