package files

import (
	"context"
	"path"

	"golang.org/x/sys/unix"
)

// Copy copies a file with its mode, or a link as a link. With recursive it also copies a directory
// with all its contents, and merges them into an existing directory.
//
// Links in the two paths are followed, including a link at the end of destination. Links inside a
// tree are not followed. If the destination has a link where the source has a file or directory, or
// any file where the source has a link, the copy stops with EEXIST. An existing file is overwritten
// and gets the source's mode; it is truncated only after a check that it is not the source. Set-id
// bits are kept only if the copy has the same owner, or group, as the original.
//
// An error names the path that it concerns. Files that were copied before the error remain. Special
// files in a tree do not stop the copy: they are omitted, and after everything else is copied, the
// error is a *LeftOutError that names them.
func Copy(ctx context.Context, source, destination string, recursive bool) error {
	return copyAll(&copier{ctx: ctx}, source, destination, recursive)
}

// CopyConfined is Copy with Options.Confined: it writes regular files only.
func CopyConfined(ctx context.Context, source, destination string, recursive bool) error {
	return copyAll(&copier{ctx: ctx, confined: true}, source, destination, recursive)
}

func copyAll(c *copier, source, destination string, recursive bool) error {
	if source == "/" {
		if !recursive {
			return ErrNotRecursive
		}
		return ErrIntoItself
	}
	from, base, err := openParent(source, Options{})
	if err != nil {
		return err
	}
	defer unix.Close(from)
	var st unix.Stat_t
	if err := unix.Fstatat(from, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return wrap(source, err)
	}
	switch fileType(&st) {
	case unix.S_IFREG:
		in := located{from, base, source}
		return c.file(in, located{unix.AT_FDCWD, destination, destination}, true)
	case unix.S_IFLNK:
		in := located{from, base, source}
		return c.link(in, located{unix.AT_FDCWD, destination, destination})
	case unix.S_IFDIR:
		if !recursive {
			return ErrNotRecursive
		}
		return c.tree(located{from, base, source}, destination)
	default:
		return ErrSpecial
	}
}

// located is a name in an open directory, with its path for error texts.
type located struct {
	dir  int
	name string
	path string
}

// copier makes one copy.
type copier struct {
	ctx      context.Context
	confined bool    // see Options
	from, to *cursor // at the same place in their trees
	top      fileID  // the destination
	buffer   []byte  // for copies that the kernel cannot make by itself
	leftOut  LeftOutError
	named    int // bytes of the paths that were left out
}

// tree copies a directory.
func (c *copier) tree(source located, destination string) error {
	fd, err := openDirAt(source.dir, source.name)
	if err != nil {
		return wrap(source.path, err)
	}
	if c.from, err = newCursor(source.path, fd); err != nil {
		return err
	}
	defer c.from.close()
	fd, made, err := c.openDestination(destination)
	if err != nil {
		return err
	}
	if c.to, err = newCursor(destination, fd); err != nil {
		return err
	}
	defer c.to.close()
	c.top = c.to.id
	mode := c.from.mode
	if err := c.contents(); err != nil {
		return err
	}
	if made {
		if err := setMode(c.to.fd, mode, c.from.fd); err != nil {
			return wrap(destination, err)
		}
	}
	if c.leftOut.Count > 0 {
		return &c.leftOut
	}
	return nil
}

// openDestination opens the destination directory of a tree. It first checks that the destination
// is not in the source. Then it creates the directory and its missing parents.
func (c *copier) openDestination(destination string) (fd int, made bool, err error) {
	at, missing, err := openExisting(destination)
	if err != nil {
		return -1, false, err
	}
	defer func() { _ = unix.Close(at) }()
	if err := c.checkOutside(at, destination); err != nil {
		return -1, false, err
	}
	if len(missing) == 0 {
		fd, err = openDirAt(at, ".")
		return fd, false, wrap(destination, err)
	}
	last := len(missing) - 1
	for _, name := range missing[:last] {
		next, _, err := makeDir(at, name, 0o777)
		if err != nil {
			return -1, false, wrap(destination, err)
		}
		_ = unix.Close(at)
		at = next
	}
	fd, made, err = makeDir(at, missing[last], c.from.mode)
	return fd, made, wrap(destination, err)
}

// openExisting opens the existing part of a path, and returns the missing names
// below it.
func openExisting(destination string) (at int, missing []string, err error) {
	for p := destination; ; p = path.Dir(p) {
		at, err = openAt(unix.AT_FDCWD, p, anchor, 0, Options{})
		switch {
		case err == nil:
			return at, missing, nil
		case err == unix.ENOTDIR && p == destination && exists(p):
			return -1, nil, wrap(p, unix.EEXIST)
		case err != unix.ENOENT || p == "/":
			return -1, nil, wrap(destination, err)
		}
		missing = append([]string{path.Base(p)}, missing...)
	}
}

func exists(name string) bool {
	var st unix.Stat_t
	return unix.Lstat(name, &st) == nil
}

// checkOutside returns ErrIntoItself if the destination is the source or inside of it.
func (c *copier) checkOutside(dir int, destination string) error {
	within, err := isWithin(dir, c.from.id)
	if within {
		return ErrIntoItself
	}
	return wrap(destination, err)
}

// isWithin reports whether an open directory is the directory with the id top or is below it. It
// follows ".." up and compares ids, because the names of a path may lead through links.
func isWithin(dir int, top fileID) (bool, error) {
	at, err := openAt(dir, ".", anchor, 0, Options{})
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Close(at) }()
	for below := (fileID{}); ; {
		var st unix.Stat_t
		if err := unix.Fstat(at, &st); err != nil {
			return false, err
		}
		id := idOf(&st)
		if id == top || id == below { // below: the root
			return id == top, nil
		}
		below = id
		up, err := openAt(at, "..", anchor, 0, Options{})
		if err != nil {
			return false, err
		}
		_ = unix.Close(at)
		at = up
	}
}

// makeDir creates a directory, or opens an existing one that is not a link. A new directory is
// writable for its owner, whatever mode says, until setMode sets its mode.
func makeDir(parent int, name string, mode uint32) (fd int, made bool, err error) {
	switch err := unix.Mkdirat(parent, name, mode&0o777|0o700); err {
	case nil:
		made = true
	case unix.EEXIST:
	default:
		return -1, false, err
	}
	fd, err = openDirAt(parent, name)
	if err == unix.ENOTDIR {
		err = unix.EEXIST
	}
	return fd, made, err
}

// dirLevel is a directory whose contents are being copied.
type dirLevel struct {
	todo []dirent
	made bool // by this copy
}

// contents copies the contents of the current directory, and of the directories below it.
func (c *copier) contents() error {
	names, err := sortedNames(c.ctx, c.from.fd, maxNames)
	if err != nil {
		return wrap(c.from.here(), err)
	}
	levels := []dirLevel{{todo: names}}
	for {
		if err := checkContext(c.ctx); err != nil {
			return err
		}
		level := &levels[len(levels)-1]
		if len(level.todo) == 0 {
			if len(levels) == 1 {
				return nil
			}
			if err := c.leave(level.made); err != nil {
				return err
			}
			levels = levels[:len(levels)-1]
			continue
		}
		e := level.todo[0]
		level.todo = level.todo[1:]
		if e.mode != unix.S_IFDIR {
			if err := c.entry(e); err != nil {
				return err
			}
			continue
		}
		made, err := c.enter(e.name)
		if err != nil {
			return err
		}
		if names, err = sortedNames(c.ctx, c.from.fd, maxNames); err != nil {
			return wrap(c.from.here(), err)
		}
		levels = append(levels, dirLevel{names, made})
	}
}

// enter enters a directory in the source and makes or enters it in the
// destination.
func (c *copier) enter(name string) (made bool, err error) {
	if err := c.from.enter(name); err != nil {
		return false, err
	}
	if c.from.id == c.top {
		return false, ErrIntoItself // the destination was moved into the source
	}
	fd, made, err := makeDir(c.to.fd, name, c.from.mode)
	if err != nil {
		return false, wrap(c.to.path(name), err)
	}
	_ = unix.Close(fd)
	return made, c.to.enter(name)
}

// leave returns to the parent on both sides. If the copy has created the directory, leave sets its
// mode.
func (c *copier) leave(made bool) error {
	mode := c.from.mode
	_, from, err := c.from.leave()
	if err != nil {
		return err
	}
	defer unix.Close(from)
	name, to, err := c.to.leave()
	if err != nil {
		return err
	}
	defer unix.Close(to)
	if !made {
		return nil
	}
	if err := setMode(to, mode, from); err != nil {
		return wrap(c.to.path(name), err)
	}
	return nil
}

// entry copies a file or a link, and counts special files.
func (c *copier) entry(e dirent) error {
	switch e.mode {
	case 0: // gone
		return nil
	case unix.S_IFLNK:
		return c.link(located{c.from.fd, e.name, ""}, located{c.to.fd, e.name, ""})
	case unix.S_IFREG:
		return c.file(located{c.from.fd, e.name, ""}, located{c.to.fd, e.name, ""}, false)
	}
	c.leaveOut(c.from.path(e.name))
	return nil
}

// leaveOut counts a special file, and names it unless too many are named.
func (c *copier) leaveOut(path string) {
	c.leftOut.Count++
	c.named += len(path)
	if len(c.leftOut.Paths) < namedLeftOut && c.named <= namedLeftOutBytes {
		c.leftOut.Paths = append(c.leftOut.Paths, path)
	}
}

// sourcePath and targetPath make the paths for error texts.
func (c *copier) sourcePath(l located) string {
	if l.path != "" {
		return l.path
	}
	return c.from.path(l.name)
}

func (c *copier) targetPath(l located) string {
	if l.path != "" {
		return l.path
	}
	return c.to.path(l.name)
}

func (c *copier) link(from, to located) error {
	buf := make([]byte, maxLink)
	n, err := unix.Readlinkat(from.dir, from.name, buf)
	if err != nil {
		return wrap(c.sourcePath(from), err)
	}
	if err := unix.Symlinkat(string(buf[:n]), to.dir, to.name); err != nil {
		return wrap(c.targetPath(to), err)
	}
	return nil
}
