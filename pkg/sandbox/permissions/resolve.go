package permissions

import (
	"path"
	"slices"
	"strings"
)

// Scope has the directories that special paths and relative patterns refer to.
type Scope struct {
	// Cwd is the policy cwd, absolute and clean; "" if it is unknown.
	Cwd string
	// WorkspaceRoots are the project roots, absolute and clean. If the list is empty, Cwd is the
	// only root.
	WorkspaceRoots []string
	// Tmpdir is $TMPDIR; it is ignored unless it is absolute.
	Tmpdir string
	// Within, if not "", is an absolute clean directory. Every path that an entry makes writable
	// must be in it or in /tmp, with all links followed. With WithinReads, every path that an entry
	// makes readable must be in it, and /tmp is not an exception.
	Within      string
	WithinReads bool
}

func (s Scope) roots() []string {
	switch {
	case len(s.WorkspaceRoots) > 0:
		return s.WorkspaceRoots
	case s.Cwd != "":
		return []string{s.Cwd}
	default:
		return nil
	}
}

// Policy is a resolved file system policy (docs/spec/sandbox.md §2). It is not safe for concurrent
// use, because its view may not be.
type Policy struct {
	fs        FileSystem
	fullRead  bool
	fullWrite bool
	entries   []resolved
	at        map[string]Access // of each entry's path; deny before write before read
	writes    map[string]bool   // paths of write entries
	patterns  []pattern         // sorted by text
	cwd       string            // effective
	view      View
	// repositories are the git directories that entries for GitPath grant, by their effective path,
	// with the protected names in them.
	repositories map[string][]string
	err          error
}

// resolved is an entry that names a path.
type resolved struct {
	path      string
	effective string
	access    Access
	index     int  // of the entry
	writable  bool // the result of CanWrite for the path
	unmasked  bool // as in ReadOnlyPath
	directory bool // as in ReadOnlyPath
}

// Resolve resolves the entries of a file system part in a scope.
func Resolve(fs FileSystem, scope Scope, view View) *Policy {
	p := &Policy{
		fs: fs, fullRead: fs.FullRead(), fullWrite: fs.FullWrite(), view: view,
		at: make(map[string]Access, len(fs.Entries)), writes: make(map[string]bool), repositories: make(map[string][]string),
	}
	if fs.Unrestricted {
		return p
	}
	if scope.Cwd != "" {
		p.cwd, _ = EffectivePath(view, scope.Cwd)
	}
	for i, e := range fs.Entries {
		if e.Path.Kind == Glob {
			if e.Access == Deny {
				p.addGlob(e.Path.Text, scope)
			}
			continue
		}
		for _, at := range e.Path.resolve(scope, view) {
			p.add(at, e.Access, i)
		}
	}
	if !p.fullWrite {
		p.grantRepositories(scope)
	}
	for i := range p.entries {
		p.entries[i].writable = p.CanWrite(p.entries[i].path)
	}
	slices.SortFunc(p.patterns, func(a, b pattern) int { return strings.Compare(a.text, b.text) })
	p.patterns = slices.CompactFunc(p.patterns, func(a, b pattern) bool { return a.text == b.text })
	return p
}

// resolve returns the paths for which an entry's path stands.
func (p Path) resolve(scope Scope, view View) []string {
	switch p.Kind {
	case Literal:
		return []string{path.Clean(p.Text)}
	case Root:
		return []string{"/"}
	case ProjectRoots:
		var paths []string
		for _, root := range scope.roots() {
			paths = append(paths, join(root, p.Subpath))
		}
		return paths
	case Tmpdir:
		if path.IsAbs(scope.Tmpdir) {
			return []string{path.Clean(scope.Tmpdir)}
		}
	case SlashTmp:
		if _, t := stat(view, "/tmp"); t == Dir {
			return []string{"/tmp"}
		}
	}
	return nil
}

func (p *Policy) add(at string, access Access, index int) {
	if !path.IsAbs(at) {
		return
	}
	// If EffectivePath cannot follow the links to the end, use the part that it has resolved.
	effective, _ := EffectivePath(p.view, at)
	p.entries = append(p.entries, resolved{path: at, effective: effective, access: access, index: index})
	if access > p.at[at] || p.at[at] == 0 {
		p.at[at] = access
	}
	if access == Write {
		p.writes[at] = true
	}
}

// ancestors yields an absolute clean path and all its parent directories, the root last.
func ancestors(p string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for yield(p) && p != "/" {
			p = parent(p)
		}
	}
}

// Access returns the access to a path by its spelling. The entry with the longest prefix of the
// path decides. Between equal prefixes, deny takes precedence over write, and write over read. A
// path without an entry is denied.
func (p *Policy) Access(at string) Access {
	if p.fs.Unrestricted {
		return Write
	}
	if !path.IsAbs(at) {
		return Deny
	}
	for a := range ancestors(path.Clean(at)) {
		if access := p.at[a]; access != 0 {
			return access
		}
	}
	return Deny
}

// CanWrite reports whether a path may be written, by its spelling. Its access must be write, and it
// must not be protected metadata unless an entry grants it.
func (p *Policy) CanWrite(at string) bool {
	if p.Access(at) != Write {
		return false
	}
	return p.fullWrite || !p.protected(path.Clean(at))
}

// protected reports whether a path is at or below a protected name directly
// under a write entry, and no write entry at or below that name covers it.
func (p *Policy) protected(at string) bool {
	granted := false // by a write entry between here and the path
	for a := range ancestors(at) {
		granted = granted || p.writes[a]
		if a != "/" && isMetadata(path.Base(a)) && p.writes[parent(a)] && !granted {
			return true
		}
	}
	return false
}

// FullRead reports whether everything may be read.
func (p *Policy) FullRead() bool { return p.fullRead }

// FullWrite reports whether everything may be written.
func (p *Policy) FullWrite() bool { return p.fullWrite }
