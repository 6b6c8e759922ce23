package files

import (
	"context"
	"errors"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// WalkOptions bound a walk (section 8.1). A MaxDepth of 0 lists what is in
// the root alone. MaxDirectories counts the directories that are listed, the
// root among them; both limits must be above 0.
type WalkOptions struct {
	MaxDepth, MaxDirectories, MaxEntries uint64
	FollowDirectorySymlinks              bool
	PruneHiddenDirectories               bool
}

// WalkEntry is something that a walk found: a directory or a regular file.
type WalkEntry struct {
	Path        string
	IsDirectory bool
}

// WalkError is a directory that could not be listed.
type WalkError struct {
	Path string
	Err  error
}

// WalkResult is what a walk found, breadth first and sorted by name in each
// directory. Truncated says that a limit ended it.
type WalkResult struct {
	Entries   []WalkEntry
	Errors    []WalkError
	Truncated bool
}

// walker is one walk.
type walker struct {
	o       WalkOptions
	result  WalkResult
	entered map[[2]uint64]bool // directories by device and inode
	queue   []pending
	listed  uint64
}

// pending is a directory that is still to be listed.
type pending struct {
	path  string
	depth uint64
}

// Walk lists a tree. A root that is a file has nothing in it.
func Walk(ctx context.Context, root string, o WalkOptions) (WalkResult, error) {
	if o.MaxDirectories == 0 || o.MaxEntries == 0 {
		return WalkResult{}, rulef("filesystem walk limits must be greater than zero")
	}
	m, err := Stat(root, Options{})
	if err != nil {
		return WalkResult{}, err
	}
	w := &walker{o: o, entered: make(map[[2]uint64]bool)}
	if m.IsDirectory {
		w.queue = []pending{{path: root}}
	}
	for len(w.queue) > 0 && !w.result.Truncated {
		if err := ended(ctx); err != nil {
			return WalkResult{}, err
		}
		next := w.queue[0]
		w.queue = w.queue[1:]
		if w.listed >= o.MaxDirectories {
			w.result.Truncated = true
			break
		}
		w.listed++
		w.list(next)
	}
	return w.result, nil
}

// list adds what is in one directory.
func (w *walker) list(at pending) {
	flags := unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK
	if at.depth > 0 && !w.o.FollowDirectorySymlinks {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := open(at.path, flags, 0, Options{})
	if err != nil {
		w.failed(at.path, err)
		return
	}
	dir := os.NewFile(uintptr(fd), at.path)
	defer dir.Close()
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil {
		key := [2]uint64{uint64(st.Dev), st.Ino}
		if w.entered[key] {
			return
		}
		w.entered[key] = true
	}
	names, err := readNames(dir)
	if err != nil {
		w.failed(at.path, wrap(at.path, err))
		return
	}
	for _, e := range names {
		if !w.add(fd, at, e) {
			return
		}
	}
}

// add adds one name; false when a limit was reached.
func (w *walker) add(dir int, at pending, e dirent) bool {
	full := path.Join(at.path, e.name)
	mode := e.mode
	if mode == unix.S_IFLNK {
		var st unix.Stat_t
		if !w.o.FollowDirectorySymlinks || unix.Fstatat(dir, e.name, &st, 0) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return true
		}
		mode = unix.S_IFDIR
	}
	if mode != unix.S_IFDIR && mode != unix.S_IFREG {
		return true
	}
	if uint64(len(w.result.Entries)) >= w.o.MaxEntries {
		w.result.Truncated = true
		return false
	}
	w.result.Entries = append(w.result.Entries, WalkEntry{Path: full, IsDirectory: mode == unix.S_IFDIR})
	hidden := w.o.PruneHiddenDirectories && strings.HasPrefix(e.name, ".")
	if mode == unix.S_IFDIR && at.depth < w.o.MaxDepth && !hidden {
		w.queue = append(w.queue, pending{full, at.depth + 1})
	}
	return true
}

func (w *walker) failed(name string, err error) {
	if errors.Is(err, unix.ENOENT) {
		return // it was removed meanwhile
	}
	if len(w.result.Errors) < maxWalkErrors {
		w.result.Errors = append(w.result.Errors, WalkError{name, err})
	}
}
