package permissions

import (
	"path"
	"slices"
)

// NeedsDirectEnforcement reports whether no legacy policy can express a profile, so that it must
// not be enforced in the legacy Landlock mode (docs/spec/sandbox.md §3). That is so in three cases:
// the profile cannot be mapped back; it protects a missing metadata name; or the profile and its
// round trip resolve to different policies.
func NeedsDirectEnforcement(p Profile, scope Scope, view View) bool {
	if p.Kind != Managed || p.FileSystem.Unrestricted {
		return false
	}
	p = p.WithProjectRoots(scope.roots())
	legacy, err := LegacyFromProfile(p, scope.Cwd)
	if err != nil {
		return true
	}
	policy := Resolve(p.FileSystem, scope, view)
	for _, root := range policy.WritableRoots() {
		readOnly := policy.defaultMetadata(root)
		for _, name := range root.Names {
			if !slices.Contains(readOnly, path.Join(root.Path, name)) {
				return true
			}
		}
	}
	only := Scope{Cwd: scope.Cwd, Tmpdir: scope.Tmpdir}
	back := Resolve(legacy.ToProfile(scope.Cwd, view).FileSystem, only, view)
	return !policy.equal(back)
}

// equal reports whether two policies of one view grant the same access.
func (p *Policy) equal(q *Policy) bool {
	if p.fullRead != q.fullRead || p.fullWrite != q.fullWrite || p.platformDefaults() != q.platformDefaults() {
		return false
	}
	samePattern := func(a, b pattern) bool { return a.text == b.text }
	return slices.EqualFunc(p.patterns, q.patterns, samePattern) &&
		slices.Equal(sorted(p.UnreadableRoots()), sorted(q.UnreadableRoots())) &&
		slices.Equal(p.effective(p.ReadableRoots()), q.effective(q.ReadableRoots())) &&
		slices.Equal(signature(p.WritableRoots()), signature(q.WritableRoots()))
}

// effective returns the effective paths of a list, sorted.
func (p *Policy) effective(paths []string) []string {
	for i, at := range paths {
		paths[i], _ = EffectivePath(p.view, at)
	}
	return sorted(paths)
}

// signature describes the effect of writable roots, one line for each path.
func signature(roots []WritableRoot) []string {
	var lines []string
	for _, root := range roots {
		lines = append(lines, root.Effective)
		for _, ro := range root.ReadOnly {
			at := ro.Path
			if below(at, root.Path) {
				at = under(at, root.Path, root.Effective)
			}
			lines = append(lines, root.Effective+"\x00"+at)
		}
		for _, name := range root.Names {
			lines = append(lines, root.Effective+"\x00\x00"+name)
		}
	}
	return sorted(lines)
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
