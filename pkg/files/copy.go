package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Copy copies a file with its mode, a link as a link, or with recursive a
// directory with all that is in it, into an existing one if there is one.
// Special files in a tree are left out and told in the error. An error names
// the path that it concerns; what was copied before it stays.
func Copy(ctx context.Context, source, destination string, recursive bool) error {
	from, fromBase, err := openParent(source, Options{})
	if path.Clean(source) == "/" {
		from, fromBase, err = -1, "/", nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(from)
	var st unix.Stat_t
	if err := unix.Fstatat(from, fromBase, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return wrap(source, err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && !recursive {
		return rulef("fs/copy requires recursive: true when sourcePath is a directory")
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := notInside(destination, &st); err != nil {
			return err
		}
		if err := CreateDirectory(path.Dir(destination), true, Options{}); err != nil {
			return err
		}
	}
	to, toBase, err := openParent(destination, Options{})
	if err != nil {
		return err
	}
	defer unix.Close(to)
	c := &copier{ctx: ctx, from: newCursor(path.Dir(source), from), to: newCursor(path.Dir(destination), to)}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFLNK:
		return c.entry(fromBase, toBase, st.Mode&unix.S_IFMT)
	case unix.S_IFDIR:
		return c.tree(fromBase, toBase, &st)
	default:
		return errSpecial
	}
}

var (
	errIntoItself = rulef("fs/copy cannot copy a directory to itself or one of its descendants")
	errSpecial    = rulef("fs/copy only supports regular files, directories, and symlinks")
)

// copier copies from one place to another; the cursors are at the same place
// of their trees.
type copier struct {
	ctx      context.Context
	from, to *cursor
	special  []string // what was left out, up to showSpecial
	left     int
}

const showSpecial = 5

// tree copies a directory.
func (c *copier) tree(fromBase, toBase string, source *unix.Stat_t) error {
	from, err := openDirAt(c.from.dir, fromBase)
	if err != nil {
		return wrap(c.from.path(fromBase), err)
	}
	c.from = newCursor(c.from.path(fromBase), from)
	defer func() { c.from.close() }()
	to, made, err := makeDir(c.to.dir, toBase, source.Mode)
	if err == unix.EEXIST {
		// Perhaps a link to a directory: the caller named it, so it is meant.
		to, err = unix.Openat(c.to.dir, toBase, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == unix.ENOTDIR {
			err = unix.EEXIST
		}
	}
	if err != nil {
		return wrap(c.to.path(toBase), err)
	}
	c.to = newCursor(c.to.path(toBase), to)
	defer func() { c.to.close() }()
	if err := c.contents(); err != nil {
		return err
	}
	if made {
		if err := unix.Fchmod(c.to.dir, source.Mode&0o7777); err != nil {
			return wrap(c.to.root, err)
		}
	}
	if c.left > 0 {
		return fmt.Errorf("%w; left out %d, such as %q", errSpecial, c.left, c.special)
	}
	return nil
}

// notInside refuses a destination that is the source or lies in it, found by
// going up from it, or from what there is of its path.
func notInside(destination string, source *unix.Stat_t) error {
	dir, err := openDirAt(unix.AT_FDCWD, destination)
	at := destination
	for ; errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP); dir, err = open(at, unix.O_RDONLY|unix.O_DIRECTORY, 0, Options{}) {
		if at == "/" {
			break
		}
		at = path.Dir(at)
	}
	if err != nil {
		return wrap(at, err)
	}
	for {
		var st unix.Stat_t
		if err := unix.Fstat(dir, &st); err != nil {
			_ = unix.Close(dir)
			return wrap(at, err)
		}
		if st.Dev == source.Dev && st.Ino == source.Ino {
			_ = unix.Close(dir)
			return errIntoItself
		}
		up, err := openDirAt(dir, "..")
		_ = unix.Close(dir)
		if err != nil {
			// Not readable from here on: what cannot be seen cannot be the
			// source either, which was.
			return nil
		}
		dir = up
		var above unix.Stat_t
		if err := unix.Fstat(dir, &above); err != nil || above.Dev == st.Dev && above.Ino == st.Ino {
			_ = unix.Close(dir)
			return wrap(at, err) // nil at the root
		}
	}
}

// makeDir makes a directory, or takes the one that is there. While it is
// being filled it can be written to, whatever its mode will be.
func makeDir(parent int, name string, mode uint32) (fd int, made bool, err error) {
	switch err := unix.Mkdirat(parent, name, mode&0o777|0o700); err {
	case nil:
		made = true
	case unix.EEXIST:
	default:
		return -1, false, err
	}
	fd, err = openDirAt(parent, name)
	if !made && (err == unix.ELOOP || err == unix.ENOTDIR) {
		err = unix.EEXIST
	}
	return fd, made, err
}

// contents copies what is in the current directory, and so on downwards.
func (c *copier) contents() error {
	type level struct {
		todo []dirent
		mode uint32 // of the directory, to be set when it is left
		made bool
	}
	names, err := c.from.list()
	if err != nil {
		return wrap(c.from.path("."), err)
	}
	levels := []level{{todo: names}}
	for {
		if err := ended(c.ctx); err != nil {
			return err
		}
		l := &levels[len(levels)-1]
		if len(l.todo) == 0 {
			if len(levels) == 1 {
				return nil
			}
			if l.made {
				if err := unix.Fchmod(c.to.dir, l.mode&0o7777); err != nil {
					return wrap(c.to.path("."), err)
				}
			}
			if err := c.leave(); err != nil {
				return err
			}
			levels = levels[:len(levels)-1]
			continue
		}
		e := l.todo[0]
		l.todo = l.todo[1:]
		if e.mode != unix.S_IFDIR {
			if err := c.entry(e.name, e.name, e.mode); err != nil {
				return err
			}
			continue
		}
		next, err := c.enter(e.name)
		if err != nil {
			return err
		}
		names, err := c.from.list()
		if err != nil {
			return wrap(c.from.path("."), err)
		}
		levels = append(levels, level{todo: names, mode: next.mode, made: next.made})
	}
}

// entered describes a directory that both cursors have entered.
type entered struct {
	mode uint32
	made bool
}

func (c *copier) enter(name string) (entered, error) {
	if err := c.from.enter(name); err != nil {
		return entered{}, wrap(c.from.path(name), err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(c.from.dir, &st); err != nil {
		return entered{}, wrap(c.from.path("."), err)
	}
	fd, made, err := makeDir(c.to.dir, name, st.Mode)
	if err != nil {
		return entered{}, wrap(c.to.path(name), err)
	}
	_ = unix.Close(fd)
	if err := c.to.enter(name); err != nil {
		return entered{}, wrap(c.to.path(name), err)
	}
	return entered{st.Mode, made}, nil
}

func (c *copier) leave() error {
	if _, err := c.from.leave(); err != nil {
		return wrap(c.from.path("."), err)
	}
	if _, err := c.to.leave(); err != nil {
		return wrap(c.to.path("."), err)
	}
	return nil
}

// entry copies a file or a link, or notes what is neither.
func (c *copier) entry(fromName, toName string, mode uint32) error {
	switch mode {
	case unix.S_IFLNK:
		return wrap(c.to.path(toName), c.link(fromName, toName))
	case unix.S_IFREG:
		return c.file(fromName, toName)
	default:
		c.left++
		if len(c.special) < showSpecial {
			c.special = append(c.special, c.from.path(fromName))
		}
		return nil
	}
}

func (c *copier) link(fromName, toName string) error {
	buf := make([]byte, maxLink)
	n, err := unix.Readlinkat(c.from.dir, fromName, buf)
	if err != nil {
		return err
	}
	return unix.Symlinkat(string(buf[:n]), c.to.dir, toName)
}

// file copies a regular file with its mode. The destination is truncated only
// once it is known not to be the source.
func (c *copier) file(fromName, toName string) error {
	source := c.from.path(fromName)
	fd, err := unix.Openat(c.from.dir, fromName, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return wrap(source, err)
	}
	in := os.NewFile(uintptr(fd), source)
	defer in.Close()
	var from, to unix.Stat_t
	if err := unix.Fstat(fd, &from); err != nil {
		return wrap(source, err)
	}
	if from.Mode&unix.S_IFMT != unix.S_IFREG {
		return c.entry(fromName, toName, from.Mode&unix.S_IFMT&^unix.S_IFREG)
	}
	target := c.to.path(toName)
	fd, err = unix.Openat(c.to.dir, toName, unix.O_WRONLY|unix.O_CREAT|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, from.Mode&0o777|0o200)
	if err != nil {
		return wrap(target, err)
	}
	out := os.NewFile(uintptr(fd), target)
	defer out.Close()
	if err := unix.Fstat(fd, &to); err != nil {
		return wrap(target, err)
	}
	if from.Dev == to.Dev && from.Ino == to.Ino {
		return rulef("fs/copy cannot copy a file onto itself: %s", target)
	}
	if to.Mode&unix.S_IFMT == unix.S_IFREG {
		if err := unix.Ftruncate(fd, 0); err != nil {
			return wrap(target, err)
		}
	}
	if _, err := io.Copy(out, in); err != nil {
		var pathErr *os.PathError
		if errors.As(err, &pathErr) {
			return wrap(pathErr.Path, pathErr.Err)
		}
		return wrap(target, err)
	}
	if err := unix.Fchmod(fd, from.Mode&0o7777); err != nil {
		return wrap(target, err)
	}
	return nil
}
