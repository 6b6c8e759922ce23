package files

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"
)

// WalkOptions bound a walk (docs/spec/wire.md §5.7). The limits must not exceed
// MaxWalkDepth, MaxWalkDirectories and MaxWalkEntries.
type WalkOptions struct {
	// MaxDepth is how many levels of directories below the root are entered. With 0 only the root's
	// entries are listed.
	MaxDepth uint64
	// MaxDirectories is how many directories are entered, including the root. It must be above 0.
	MaxDirectories uint64
	// MaxEntries is how many names are examined. It must be above 0. Links and special files count
	// although they are not listed. Dangling links do not count.
	MaxEntries uint64
	// FollowDirectorySymlinks lists links to directories as directories, and
	// enters them. No directory is entered twice.
	FollowDirectorySymlinks bool
	// PruneHiddenDirectories lists directories whose names begin with a dot,
	// but does not enter them. The root is always entered.
	PruneHiddenDirectories bool
	// Attributes adds attributes to each entry. Names that were removed meanwhile are omitted.
	Attributes bool
}

// WalkEntry is a directory or a regular file.
type WalkEntry struct {
	Path        string
	IsDirectory bool
	Attributes  *Attributes // of the name itself; nil: not asked for
}

// WalkError reports a directory that could not be listed.
type WalkError struct {
	Path string
	Err  error
}

// WalkResult is the result of a walk: the entries below the root, breadth first
// and sorted by name in each directory. Truncated reports that entries are missing because of a
// limit on directories or entries.
type WalkResult struct {
	Entries   []WalkEntry
	Errors    []WalkError
	Truncated bool
}

// walker is one walk.
type walker struct {
	ctx     context.Context
	o       WalkOptions
	root    string
	fd      int // descriptor of the root, from which all other files are opened
	result  WalkResult
	queue   []pending // directories still to be entered
	entered map[fileID]bool
	looked  uint64 // number of names, as MaxEntries counts them
}

// pending is a directory that is still to be entered, by its path from the
// root.
type pending struct {
	path  string
	depth uint64
}

// Walk lists a tree. If the root is a file, or a link to a directory and links are not followed,
// the result is empty. A missing root is an error. Unless links are followed, Walk never leaves the
// root, even if another process replaces a directory by a link meanwhile. The result names the
// directories that cannot be read.
func Walk(ctx context.Context, root string, o WalkOptions) (WalkResult, error) {
	if o.MaxDirectories == 0 || o.MaxEntries == 0 {
		return WalkResult{}, ErrWalkLimits
	}
	if o.MaxDepth > MaxWalkDepth || o.MaxDirectories > MaxWalkDirectories || o.MaxEntries > MaxWalkEntries {
		return WalkResult{}, ErrWalkMaximums
	}
	fd, err := openWalkRoot(root, o)
	if err != nil || fd < 0 {
		return WalkResult{}, err
	}
	defer unix.Close(fd)
	w := &walker{ctx: ctx, o: o, root: root, fd: fd, queue: []pending{{path: "."}}, entered: make(map[fileID]bool)}
	for len(w.queue) > 0 && !w.result.Truncated {
		if err := checkContext(ctx); err != nil {
			return WalkResult{}, err
		}
		next := w.queue[0]
		w.queue = w.queue[1:]
		if err := w.enter(next); err != nil {
			if ctx.Err() != nil {
				return WalkResult{}, err
			}
			w.addError(next, err)
		}
	}
	return w.result, nil
}

// openWalkRoot opens the root, or returns -1 if it is not a directory to enter.
func openWalkRoot(root string, o WalkOptions) (int, error) {
	flags := unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK
	if !o.FollowDirectorySymlinks {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := open(root, flags, 0, Options{})
	if isErrno(err, unix.ENOTDIR) || isErrno(err, unix.ELOOP) {
		_, err = Stat(root, Options{})
		return -1, err
	}
	return fd, err
}

// absolute returns the absolute path of a path below the root.
func (w *walker) absolute(below string) string {
	if below == "." {
		return w.root
	}
	return strings.TrimSuffix(w.root, "/") + "/" + below
}

// enter lists one directory.
func (w *walker) enter(at pending) error {
	o := Options{NoFollow: !w.o.FollowDirectorySymlinks}
	fd, err := openAt(w.fd, at.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0, o)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if w.entered[idOf(&st)] {
		return nil
	}
	if uint64(len(w.entered)) >= w.o.MaxDirectories {
		w.result.Truncated = true
		return nil
	}
	w.entered[idOf(&st)] = true
	names, err := sortedNames(w.ctx, fd, maxNames)
	if err != nil {
		return err
	}
	for _, e := range names {
		if !w.add(fd, at, e) {
			break
		}
	}
	return nil
}

// add adds one name. It returns false if MaxEntries is reached.
func (w *walker) add(dir int, at pending, e dirent) (goesOn bool) {
	link := e.mode == unix.S_IFLNK
	if link {
		var st unix.Stat_t
		if unix.Fstatat(dir, e.name, &st, 0) != nil {
			return true
		}
		e.mode = fileType(&st)
	}
	if w.looked >= w.o.MaxEntries {
		w.result.Truncated = true
		return false
	}
	w.looked++
	isDirectory := e.mode == unix.S_IFDIR
	if link && (!isDirectory || !w.o.FollowDirectorySymlinks) || !isDirectory && e.mode != unix.S_IFREG {
		return true
	}
	var attributes *Attributes
	if w.o.Attributes {
		a, err := attributesAt(dir, e.name)
		if err == unix.ENOENT {
			return true
		}
		if err == nil {
			attributes = &a
		}
	}
	below := e.name
	if at.path != "." {
		below = at.path + "/" + e.name
	}
	w.result.Entries = append(w.result.Entries, WalkEntry{w.absolute(below), isDirectory, attributes})
	hidden := w.o.PruneHiddenDirectories && e.name[0] == '.'
	if isDirectory && at.depth < w.o.MaxDepth && !hidden {
		w.queue = append(w.queue, pending{below, at.depth + 1})
	}
	return true
}

// addError records a directory that could not be listed. There are at most MaxEntries such records.
// Directories that were removed or replaced by a link are ignored.
func (w *walker) addError(at pending, err error) {
	if err == unix.ENOENT || err == ErrSymlink {
		return
	}
	full := w.absolute(at.path)
	w.result.Errors = append(w.result.Errors, WalkError{full, wrap(full, err)})
}
