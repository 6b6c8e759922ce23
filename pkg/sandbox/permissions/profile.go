package permissions

import (
	"path"
	"slices"
	"strings"
)

// Kind is the kind of a permission profile.
type Kind int

// The kinds of profiles.
const (
	// Managed profiles are enforced by the server.
	Managed Kind = iota + 1
	// Disabled asks for no sandbox.
	Disabled
	// External means that another program confines the file system.
	External
)

// Access is the access that an entry grants or denies. The zero value is not valid.
type Access uint8

// The kinds of access.
const (
	Read Access = iota + 1
	Write
	Deny
)

// String returns the word of the protocol.
func (a Access) String() string {
	switch a {
	case Read:
		return "read"
	case Write:
		return "write"
	case Deny:
		return "deny"
	default:
		return "invalid"
	}
}

// CanRead reports whether a includes reading.
func (a Access) CanRead() bool { return a == Read || a == Write }

// Network is whether the network may be used.
type Network uint8

// The network modes. The zero value is the strict one.
const (
	NetworkRestricted Network = iota
	NetworkEnabled
)

// String returns the word of the protocol.
func (n Network) String() string {
	if n == NetworkEnabled {
		return "enabled"
	}
	return "restricted"
}

// PathKind is the kind of the path of an entry.
type PathKind uint8

// The kinds of paths: a path, a pattern, or one of the special paths.
const (
	Literal PathKind = iota
	Glob
	Root
	Minimal
	ProjectRoots
	Tmpdir
	SlashTmp
	Unknown
)

// Path is the path of an entry. Two paths mean the same if they are equal by ==.
type Path struct {
	Kind PathKind
	// Text is a clean absolute native path (Literal), the pattern as it was
	// written (Glob), or the name of an unknown special path.
	Text string
	// Subpath is set for ProjectRoots and Unknown. It is the text as written.
	Subpath    string
	HasSubpath bool
}

// Entry is one rule of a restricted file system.
type Entry struct {
	Path   Path
	Access Access
}

// FileSystem is the file system part of a profile. The zero value grants
// nothing.
type FileSystem struct {
	// Unrestricted permits reading and writing everything; there are no entries.
	Unrestricted bool
	Entries      []Entry
	// GlobScanMaxDepth bounds the depth of the search for patterns; 0 is unset.
	GlobScanMaxDepth int
}

// Profile is a permission profile (docs/spec/sandbox.md §1.2). A Disabled or External profile has
// an unrestricted file system, and a Disabled one has the network.
type Profile struct {
	Kind       Kind
	FileSystem FileSystem
	Network    Network
}

// FullWrite reports whether the profile permits writing everything. Disabled and External profiles
// do, because this program then confines nothing.
func (p Profile) FullWrite() bool { return p.Kind != Managed || p.FileSystem.FullWrite() }

// ConfinesFiles reports whether file system requests must be confined.
func (p Profile) ConfinesFiles() bool { return !p.FullWrite() }

// ConfinesProcesses reports whether a process must be confined.
func (p Profile) ConfinesProcesses() bool {
	return p.ConfinesFiles() || p.Kind == Managed && p.Network != NetworkEnabled
}

// FullRead reports whether everything may be read: the profile has a root entry that can read, and
// denies nothing.
func (fs FileSystem) FullRead() bool {
	if fs.Unrestricted {
		return true
	}
	root := false
	for _, e := range fs.Entries {
		if e.Access == Deny {
			return false
		}
		root = root || e.Path.Kind == Root && e.Access.CanRead()
	}
	return root
}

// DeniesReads reports whether an entry denies a path or a pattern. Only a sandbox can enforce that,
// whatever else is granted.
func (fs FileSystem) DeniesReads() bool {
	return !fs.Unrestricted && slices.ContainsFunc(fs.Entries, func(e Entry) bool { return e.Access == Deny })
}

// Writes reports whether anything may be written.
func (fs FileSystem) Writes() bool {
	return fs.Unrestricted || slices.ContainsFunc(fs.Entries, func(e Entry) bool { return e.Access == Write })
}

// FullWrite reports whether everything may be written: the profile has a root entry with write
// access, and no entry that narrows it.
func (fs FileSystem) FullWrite() bool {
	if fs.Unrestricted {
		return true
	}
	root := Entry{Path{Kind: Root}, Write}
	return slices.Contains(fs.Entries, root) && !slices.ContainsFunc(fs.Entries, fs.narrows)
}

// narrows reports whether an entry restricts a writable root.
func (fs FileSystem) narrows(e Entry) bool {
	switch e.Path.Kind {
	case Glob:
		return true
	case Root:
		return e.Access == Deny
	case Minimal, Unknown:
		return false
	}
	switch e.Access {
	case Write:
		return false
	case Read:
		return !slices.ContainsFunc(fs.Entries, func(w Entry) bool {
			return w.Access == Write && w.Path.target() == e.Path.target()
		})
	default:
		return true
	}
}

// target returns p in a form that is equal for all paths that mean the same.
func (p Path) target() Path {
	switch p.Kind {
	case Root:
		return Path{Text: "/"}
	case SlashTmp:
		return Path{Text: "/tmp"}
	default:
		return p
	}
}

// NeedsCwd reports whether an entry is relative to a working directory or the
// project roots.
func (p Profile) NeedsCwd() bool {
	return slices.ContainsFunc(p.FileSystem.Entries, func(e Entry) bool {
		return e.Path.Kind == ProjectRoots || e.Path.isGit() || e.Path.Kind == Glob && !path.IsAbs(e.Path.Text)
	})
}

// projectRootsGlob begins a pattern that is relative to each project root.
const projectRootsGlob = "codex-project-roots://"

// WithProjectRoots returns the profile with each project_roots entry replaced
// by one entry per root, and each pattern that begins with
// codex-project-roots:// by one per root. Roots are clean absolute paths. Other
// relative patterns are not changed. Without roots, nothing is changed.
func (p Profile) WithProjectRoots(roots []string) Profile {
	if len(roots) == 0 {
		return p
	}
	var entries []Entry
	for _, e := range p.FileSystem.Entries {
		pattern, glob := strings.CutPrefix(e.Path.Text, projectRootsGlob)
		glob = glob && e.Path.Kind == Glob
		if e.Path.Kind != ProjectRoots && !e.Path.isGit() && !glob {
			entries = append(entries, e)
			continue
		}
		for i, root := range roots {
			if slices.Contains(roots[:i], root) {
				continue
			}
			to := Path{Text: join(root, e.Path.Subpath)}
			switch {
			case glob:
				to = Path{Kind: Glob, Text: joinGlob(root, pattern)}
			case e.Path.isGit():
				to = Path{Kind: Unknown, Text: GitPath, Subpath: to.Text, HasSubpath: true}
			}
			entries = append(entries, Entry{to, e.Access})
		}
	}
	p.FileSystem.Entries = entries
	return p
}

// join returns the clean path of sub below root. If sub is absolute, it returns sub.
func join(root, sub string) string {
	if path.IsAbs(sub) {
		return path.Clean(sub)
	}
	return path.Join(root, sub)
}
