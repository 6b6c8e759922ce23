package permissions

import (
	"errors"
	"path"
	"slices"
	"strings"
)

// FileType is the type of a file.
type FileType uint8

// These are the types. Symbolic links are not followed.
const (
	Missing FileType = iota
	Dir
	Regular
	Symlink
	Other
)

// Info is the result of Lstat.
type Info struct {
	Type     FileType
	Size     int64
	Dev, Ino uint64
	// Mine means that the file belongs to the user of this program.
	Mine bool
	// Sticky means, for a directory, that users may remove only their own files in it.
	Sticky bool
}

// View is read access to a file system. Paths are absolute and clean. A View need not be safe for
// concurrent use.
type View interface {
	// Lstat returns the type of the file at a path. If the path does not exist (ENOENT, ENOTDIR),
	// the type is Missing and there is no error.
	Lstat(path string) (Info, error)
	// Readlink returns the target of a symbolic link as stored.
	Readlink(path string) (string, error)
	// ReadFile returns at most limit bytes from the start of a regular file.
	ReadFile(path string, limit int) ([]byte, error)
	// ReadDir calls each for the entries of a directory, in any order, without `.` and `..`. The
	// type is Other if it is unknown.
	ReadDir(path string, each func(name string, t FileType) error) error
}

// ErrTooManyLinks means that symbolic links form a circle, or a chain of more than MaxLinks.
var ErrTooManyLinks = errors.New("too many levels of symbolic links")

// EffectivePath returns an absolute path with all symbolic links in its deepest existing ancestor
// resolved. That ancestor may be the path itself. The missing rest of the path is unchanged. A
// dangling link counts as missing. The error is the view's, or reports more than 40 links. If there
// is an error, the result is resolved as far as possible.
func EffectivePath(view View, p string) (string, error) {
	real, _, err := FollowLinks(view, p, func(string) {})
	return real, err
}

// FollowLinks is EffectivePath, but it also returns how many links it has followed. It calls each,
// in order, for every path that determines where p leads. These are the links in p and in the
// targets of other links, and the directories that the target of a link enters and leaves by "..".
// The paths have no links above their last component.
func FollowLinks(view View, p string, each func(at string)) (real string, links int, err error) {
	r := resolver{view: view, each: each}
	at, rest, err := r.walk("/", path.Clean(p))
	return path.Join(at, rest), r.links, err
}

// MissingEnd returns the path to which p would lead if all its components existed. It follows
// dangling links. first is the first missing component, or "". If the rest of the path leaves that
// component by "..", end is that component: a process that creates a link there decides where the
// rest leads.
func MissingEnd(view View, p string) (end, first string, err error) {
	r := resolver{view: view, each: func(string) {}}
	at, _, err := r.walk("/", path.Clean(p))
	if r.missing == "" || err != nil {
		return at, "", err
	}
	if slices.Contains(strings.Split(r.left, "/"), "..") {
		return r.missing, r.missing, nil
	}
	return path.Join(r.missing, r.left), r.missing, nil
}

// stat returns the type of a path after its links are followed.
func stat(view View, p string) (string, FileType) {
	r := resolver{view: view, each: func(string) {}}
	at, rest, err := r.walk("/", path.Clean(p))
	if err != nil || rest != "" {
		return "", Missing
	}
	info, err := view.Lstat(at)
	if err != nil {
		return "", Missing
	}
	return at, info.Type
}

// Foreign reports whether another user has created the file at a path in a directory that users
// share, that is, one with the sticky bit, such as /tmp. The parent of the path must be a
// directory, without links.
func Foreign(view View, at string) bool {
	info, err := view.Lstat(at)
	if err != nil || info.Type == Missing || info.Mine {
		return false
	}
	dir, err := view.Lstat(path.Dir(at))
	return err == nil && dir.Sticky
}

// resolver follows symbolic links.
type resolver struct {
	view  View
	each  func(at string)
	links int

	missing, left string // the missing component, by a path without links, and the rest of the path
}

// walk starts at a resolved directory and follows the components of p. It returns the path that it
// has reached and the missing rest of p.
func (r *resolver) walk(at, p string) (string, string, error) {
	if path.IsAbs(p) {
		at = "/"
	}
	for {
		p = strings.TrimLeft(p, "/")
		if p == "" {
			return at, "", nil
		}
		name, rest, _ := strings.Cut(p, "/")
		next, missing, err := r.step(at, name)
		if missing || err != nil {
			r.left += "/" + rest
			return at, p, err
		}
		at, p = next, rest
	}
}

// step goes from a resolved directory to one name in it, and follows links.
func (r *resolver) step(at, name string) (next string, missing bool, err error) {
	switch name {
	case ".":
		return at, false, nil
	case "..":
		r.each(at)
		return path.Dir(at), false, nil
	}
	next = path.Join(at, name)
	info, err := r.view.Lstat(next)
	if err != nil || info.Type == Missing {
		r.missing = next
		return "", true, err
	}
	if info.Type != Symlink {
		return next, false, nil
	}
	if r.links++; r.links > MaxLinks {
		return "", true, ErrTooManyLinks
	}
	r.each(next)
	target, err := r.view.Readlink(next)
	if err != nil {
		return "", true, err
	}
	next, rest, err := r.walk(at, target)
	return next, rest != "" || target == "", err
}

// below reports whether p is below root, and is not root.
func below(p, root string) bool {
	if root == "/" {
		return len(p) > 1
	}
	return len(p) > len(root) && p[len(root)] == '/' && p[:len(root)] == root
}

// Within reports whether p is root or below it.
func Within(p, root string) bool { return p == root || below(p, root) }

// under converts p, which is within from, to the same path within to.
func under(p, from, to string) string {
	switch {
	case p == from:
		return to
	case from == "/":
		from = ""
	}
	if to == "/" {
		to = ""
	}
	return to + p[len(from):]
}

// parent returns the parent folder of an absolute clean path.
func parent(p string) string { return p[:max(strings.LastIndexByte(p, '/'), 1)] }
