package permissions

import (
	"errors"
	"path"
	"slices"
	"strings"
)

// FileType is what a path names.
type FileType uint8

// The types. Symbolic links are not followed.
const (
	Missing FileType = iota
	Dir
	Regular
	Symlink
	Other
)

// Info is what Lstat tells.
type Info struct {
	Type     FileType
	Size     int64
	Dev, Ino uint64
	// Mine says that it belongs to the user of this program.
	Mine bool
	// Sticky says of a directory that users may only remove what is theirs.
	Sticky bool
}

// View is what may be seen of a file system. Paths are absolute and clean.
// It need not be safe for concurrent use.
type View interface {
	// Lstat says what a path names: Missing, without an error, if nothing is
	// there (ENOENT, ENOTDIR).
	Lstat(path string) (Info, error)
	// Readlink returns the target of a symbolic link as it is stored.
	Readlink(path string) (string, error)
	// ReadFile returns at most limit bytes from the start of a regular file.
	ReadFile(path string, limit int) ([]byte, error)
	// ReadDir calls each for the entries of a directory, in any order,
	// without `.` and `..`. The type is Other when it is not known.
	ReadDir(path string, each func(name string, t FileType) error) error
}

// ErrTooManyLinks says that symbolic links lead around in a circle.
var ErrTooManyLinks = errors.New("too many levels of symbolic links")

// EffectivePath returns an absolute path with the symbolic links of its deepest
// existing ancestor (it may be the path itself) resolved; what does not exist
// is kept as it is. A link that leads nowhere does not exist. With an error,
// which is the view's or says that there are more than 40 links, the result is
// resolved as far as it could be.
func EffectivePath(view View, p string) (string, error) {
	real, _, err := FollowLinks(view, p, func(string) {})
	return real, err
}

// FollowLinks is EffectivePath that also returns how many links it has followed, and calls each, in order, with what decides where p
// leads: every link, of p and of what other links lead to, and every directory that the target of a link enters and leaves by "..". They
// are named by paths without links above.
func FollowLinks(view View, p string, each func(at string)) (real string, links int, err error) {
	r := resolver{view: view, each: each}
	at, rest, err := r.walk("/", path.Clean(p))
	return path.Join(at, rest), r.links, err
}

// MissingEnd returns where a path would lead if it were there, through links that lead nowhere, and the first name of that which is
// missing, or "". If what follows that name leaves it by "..", it is the end: whoever makes a link there decides where the rest leads.
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

// stat says what a path names after its links are followed.
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

// Foreign reports whether another user has put something at a path, in a
// directory that users share: one with the sticky bit, such as /tmp. The parent
// of the path must be a directory, without links.
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

	missing, left string // the name that was not there, by a path without links, and what followed it
}

// walk goes from a resolved directory along the components of p, and returns
// where it came and what is left of p, which does not exist.
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

// step goes from a resolved directory to one name in it, through links.
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

// below reports whether p lies below root, and is not root.
func below(p, root string) bool {
	if root == "/" {
		return len(p) > 1
	}
	return len(p) > len(root) && p[len(root)] == '/' && p[:len(root)] == root
}

// within reports whether p is root or lies below it.
func within(p, root string) bool { return p == root || below(p, root) }

// under returns p, which is within from, as it is spelled under to.
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

// parent returns the folder of an absolute clean path.
func parent(p string) string { return p[:max(strings.LastIndexByte(p, '/'), 1)] }
