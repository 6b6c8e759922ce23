package permissions

import (
	"path"
	"slices"
	"strings"
)

// WritableRoot is a writable path, with the paths below it that must not be written.
type WritableRoot struct {
	Path      string // as the entry spells it
	Effective string // with the links of existing ancestors resolved
	// ReadOnly are the paths that must not be written, without duplicates: first the defaults, then
	// the paths of entries in their order. Paths below the root are spelled below Path. A default
	// may be elsewhere: the target of a .git file.
	ReadOnly []ReadOnlyPath
	// Names are the protected names that must not be created right below it.
	Names []string
	// Repository are the paths to which the .git of the root, or of a directory above it, leads. If
	// such a path is in a writable root, it must neither be written nor created.
	Repository []string
}

// ReadOnlyPath is a path that must not be written.
type ReadOnlyPath struct {
	Path string
	// Default means that no entry names the path: it is existing metadata.
	Default bool
	// ProjectRootsMetadata means that the path is a missing .git, .agents or .codex directly below
	// the root, which a read entry names as in the usual workspace profile. The root's Names
	// protect it.
	ProjectRootsMetadata bool
	// Unmasked means that no placeholder may be put at the path if it is missing: git would fail.
	Unmasked bool
	// Directory means that the placeholder at the path, if it is missing, must be a directory.
	Directory bool
	// Entry is the index of the entry, -1 for a default.
	Entry int
}

// ReadableRoots returns the readable paths as spelled, writable roots included. It returns nil if
// everything may be read. If several spellings lead to the same path, only one is returned.
func (p *Policy) ReadableRoots() []string {
	if p.fullRead {
		return nil
	}
	var roots []string
	seen := make(map[string]bool)
	for _, e := range p.entries {
		if e.access.CanRead() && p.Access(e.path).CanRead() && !seen[e.effective] {
			seen[e.effective] = true
			roots = append(roots, e.path)
		}
	}
	return roots
}

// ReadablePaths returns the readable paths as the entries spell them, writable roots included.
// Unlike ReadableRoots it returns every spelling of a path.
func (p *Policy) ReadablePaths() []string {
	var paths []string
	for _, e := range p.entries {
		if e.access.CanRead() && p.Access(e.path).CanRead() {
			paths = append(paths, e.path)
		}
	}
	return paths
}

// PlatformRoots returns the existing system directories that may be read under a profile with
// restricted reads and `minimal`.
func (p *Policy) PlatformRoots() []string {
	if !p.platformDefaults() {
		return nil
	}
	var roots []string
	for _, root := range [...]string{
		"/bin", "/sbin", "/usr", "/etc", "/lib", "/lib64", "/nix/store", "/run/current-system/sw",
	} {
		if _, t := stat(p.view, root); t != Missing {
			roots = append(roots, root)
		}
	}
	return roots
}

func (p *Policy) platformDefaults() bool {
	return !p.fullRead && slices.ContainsFunc(p.fs.Entries, func(e Entry) bool {
		return e.Path.Kind == Minimal && e.Access.CanRead()
	})
}

// UnreadableRoots returns the effective paths of denied entries, except an entry
// for `/`.
func (p *Policy) UnreadableRoots() []string {
	var roots []string
	seen := make(map[string]bool)
	for _, e := range p.entries {
		if e.access == Deny && e.path != "/" && !p.Access(e.path).CanRead() && !seen[e.effective] {
			seen[e.effective] = true
			roots = append(roots, e.effective)
		}
	}
	return roots
}

// WritableRoots returns the writable roots, one for each effective path, in the order of the
// entries. It returns nil if everything may be written. A path that another spelling denies is not
// a root.
func (p *Policy) WritableRoots() []WritableRoot {
	if p.fullWrite {
		return nil
	}
	denied := make(map[string]bool)
	for _, e := range p.entries {
		if e.access == Deny {
			denied[e.effective] = true
		}
	}
	// spellings has the spellings of each root, in the order of the roots.
	spellings := make(map[string][]string)
	var order []string
	for _, e := range p.entries {
		if e.access != Write || denied[e.effective] || !e.writable {
			continue
		}
		if len(spellings[e.effective]) == 0 {
			order = append(order, e.effective)
		}
		if !slices.Contains(spellings[e.effective], e.path) {
			spellings[e.effective] = append(spellings[e.effective], e.path)
		}
	}
	roots := make([]WritableRoot, 0, len(order))
	bare := make(map[string]bool)
	for _, effective := range order {
		roots = append(roots, p.writableRoot(effective, spellings[effective], bare))
	}
	return roots
}

func (p *Policy) writableRoot(effective string, spellings []string, bare map[string]bool) WritableRoot {
	root := WritableRoot{Path: spellings[0], Effective: effective}
	seen := make(map[string]bool)
	add := func(ro ReadOnlyPath) {
		if !seen[ro.Path] {
			seen[ro.Path] = true
			root.ReadOnly = append(root.ReadOnly, ro)
		}
	}
	repository := p.repositoryPaths(root, p.granted(root, spellings, ".git"), bare)
	given := p.givenRepositories(repository)
	inGiven := func(at string) bool {
		real, _ := EffectivePath(p.view, at)
		return slices.ContainsFunc(given, func(dir string) bool { return Within(real, dir) })
	}
	for _, at := range p.defaultMetadata(root) {
		if !p.explicit(root, spellings, at) && !inGiven(at) {
			add(ReadOnlyPath{Path: at, Default: true, Entry: -1})
		}
	}
	for _, e := range p.entries {
		if e.access == Write || e.writable {
			continue
		}
		at, ok := respell(e, root, spellings)
		if !ok {
			continue
		}
		ro := ReadOnlyPath{Path: at, Entry: e.index, Unmasked: e.unmasked, Directory: e.directory}
		if e.access == Read && parent(at) == root.Path && isMetadata(path.Base(at)) {
			info, err := p.view.Lstat(at)
			ro.ProjectRootsMetadata = err == nil && info.Type == Missing
		}
		add(ro)
	}
	for _, name := range metadataNames {
		if !p.granted(root, spellings, name) {
			root.Names = append(root.Names, name)
		}
	}
	for _, name := range p.repositories[effective] {
		if !strings.Contains(name, "/") && name != commonDir {
			root.Names = append(root.Names, name)
		}
	}
	for _, at := range repository {
		if !seen[at] && !p.explicit(root, spellings, at) && !inGiven(at) {
			seen[at] = true
			root.Repository = append(root.Repository, at)
		}
	}
	return root
}

// respell returns the path of an entry as a path below a root. If the entry's own spelling is below
// the root, that is the result, even if a link in it leads elsewhere. Otherwise the result is
// derived from the effective path.
func respell(e resolved, root WritableRoot, spellings []string) (string, bool) {
	if root.Path != "/" {
		for _, s := range spellings {
			if below(e.path, s) {
				return under(e.path, s, root.Path), true
			}
		}
	}
	if below(e.effective, root.Effective) {
		return under(e.effective, root.Effective, root.Path), true
	}
	return "", false
}

// explicit reports whether an entry names a path of a root itself.
func (p *Policy) explicit(root WritableRoot, spellings []string, at string) bool {
	return slices.ContainsFunc(p.entries, func(e resolved) bool {
		if e.path == at {
			return true
		}
		as, ok := respell(e, root, spellings)
		return ok && as == at
	})
}

// granted reports whether an entry lets a protected name below a root be
// written.
func (p *Policy) granted(root WritableRoot, spellings []string, name string) bool {
	for _, s := range spellings {
		if p.CanWrite(path.Join(s, name)) {
			return true
		}
	}
	at := path.Join(root.Effective, name)
	return slices.ContainsFunc(p.entries, func(e resolved) bool {
		return e.access == Write && e.effective == at && e.writable
	})
}

// metadataNames are protected right below every writable root
// (docs/spec/sandbox.md §2.4).
var metadataNames = [...]string{".git", ".agents", ".codex"}

func isMetadata(name string) bool {
	return name == ".git" || name == ".agents" || name == ".codex"
}

// defaultMetadata returns the metadata of a root that is read-only unless an
// entry says otherwise.
func (p *Policy) defaultMetadata(root WritableRoot) []string {
	return existingMetadata(p.view, root.Path, p.cwd != "" && p.cwd == root.Effective)
}

// existingMetadata returns the existing metadata of a root: the target of a .git file, .git,
// .agents and .codex. With missingCodex, .codex is included even if it is missing.
func existingMetadata(view View, root string, missingCodex bool) []string {
	var paths []string
	git := path.Join(root, ".git")
	effective, t := stat(view, git)
	if t == Regular && !Foreign(view, effective) {
		if target := gitdir(view, git, effective); target != "" {
			paths = append(paths, target)
		}
	}
	if t == Regular || t == Dir {
		paths = append(paths, git)
	}
	agents, codex := path.Join(root, ".agents"), path.Join(root, ".codex")
	if _, t := stat(view, agents); t == Dir {
		paths = append(paths, agents)
	}
	if _, t := stat(view, codex); t == Dir || missingCodex {
		paths = append(paths, codex)
	}
	return paths
}

// gitdir returns the path to which a .git file points, or "" if that path does not exist.
func gitdir(view View, git, effective string) string {
	target := pointer(view, effective)
	if target == "" {
		return ""
	}
	target = join(path.Dir(git), target)
	if _, t := stat(view, target); t == Missing {
		return ""
	}
	return target
}

// UnreadablePaths returns the denied paths as the entries spell them, without `/`.
// Unlike UnreadableRoots it returns every spelling of a path.
func (p *Policy) UnreadablePaths() []string {
	var paths []string
	for _, e := range p.entries {
		if e.access == Deny && e.path != "/" && !p.Access(e.path).CanRead() {
			paths = append(paths, e.path)
		}
	}
	return paths
}
