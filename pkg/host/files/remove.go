//go:build linux || darwin

package files

import (
	"context"

	"golang.org/x/sys/unix"
)

// RemoveOptions say what Remove does with directories and missing paths.
type RemoveOptions struct {
	Options
	// Recursive removes what is in a directory with it. Without it a full
	// directory is ENOTEMPTY.
	Recursive bool
	// Force makes a missing path no error.
	Force bool
}

// Remove removes a file, a link (not what it leads to) or a directory. It
// never leaves the tree, whatever is changed in it meanwhile, and takes
// trees of any depth and width. What is gone before it gets there is no error
// inside a tree; the first error ends it, and names what could not be removed.
// With NoFollow a path that is itself a link is refused too, with ErrSymlink;
// links inside a tree are always removed and never followed.
func Remove(ctx context.Context, name string, o RemoveOptions) error {
	err := remove(ctx, name, o)
	if o.Force && isErrno(err, unix.ENOENT) {
		return nil
	}
	return err
}

func remove(ctx context.Context, name string, o RemoveOptions) error {
	dir, base, err := openParent(name, o.Options)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if o.NoFollow && isLinkAt(dir, base) {
		return ErrSymlink
	}
	err = unlinkFile(dir, base)
	if err != unix.EISDIR {
		return wrap(name, err)
	}
	err = unlinkAt(dir, base, unix.AT_REMOVEDIR)
	if !o.Recursive || !isFull(err) {
		return wrap(name, err)
	}
	top, err := openDirAt(dir, base)
	if err != nil {
		return wrap(name, err)
	}
	c, err := newCursor(name, top)
	if err != nil {
		return err
	}
	err = empty(ctx, c)
	c.close()
	if err != nil {
		return err
	}
	return wrap(name, unlinkAt(dir, base, unix.AT_REMOVEDIR))
}

func unlinkAt(dir int, name string, flags int) error {
	return retry(func() error { return unix.Unlinkat(dir, name, flags) })
}

// isFull tells the two errors with which a directory is not removed because
// something is in it.
func isFull(err error) bool { return err == unix.ENOTEMPTY || err == unix.EEXIST }

// batch is some names of a directory that are still to be removed.
type batch struct {
	names []dirent
	whole bool // there are no others
}

// empty removes what is in the directory of c, depth first.
func empty(ctx context.Context, c *cursor) error {
	levels := []batch{{}}
	for {
		if err := ended(ctx); err != nil {
			return err
		}
		level := &levels[len(levels)-1]
		switch {
		case len(level.names) > 0:
			e := level.names[0]
			level.names = level.names[1:]
			entered, err := removeEntry(c, e)
			if err != nil {
				return err
			}
			if entered {
				levels = append(levels, batch{})
			}
		case !level.whole:
			// What was read before is gone, so the next names are the first.
			if _, err := unix.Seek(c.fd, 0, unix.SEEK_SET); err != nil {
				return wrap(c.here(), err)
			}
			names, whole, err := readNames(ctx, c.fd, removeBatch)
			switch err {
			case nil:
				*level = batch{names, whole}
			case unix.ENOENT: // somebody else removed the directory
				*level = batch{whole: true}
			default:
				return wrap(c.here(), err)
			}
		case c.depth() == 0:
			return nil
		default:
			if err := leaveAndRemove(c); err != nil {
				return err
			}
			levels = levels[:len(levels)-1]
		}
	}
}

func leaveAndRemove(c *cursor) error {
	name, left, err := c.leave()
	if err != nil {
		return err
	}
	_ = unix.Close(left)
	if err := unlinkAt(c.fd, name, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
		return wrap(c.path(name), err)
	}
	return nil
}

// removeEntry removes one name, or enters it when it is a directory that is
// not empty. What the directory said of its type is only where it begins.
func removeEntry(c *cursor, e dirent) (entered bool, err error) {
	if e.mode != unix.S_IFDIR {
		err = unlinkFile(c.fd, e.name)
	}
	if e.mode == unix.S_IFDIR || err == unix.EISDIR {
		err = unlinkAt(c.fd, e.name, unix.AT_REMOVEDIR)
		if isFull(err) {
			if err := c.enter(e.name); !isErrno(err, unix.ENOENT) {
				return true, err
			}
			err = unix.ENOENT
		}
		if err == unix.ENOTDIR { // it was one a moment ago
			err = unlinkFile(c.fd, e.name)
		}
	}
	if err == nil || err == unix.ENOENT { // or somebody else was faster
		return false, nil
	}
	return false, wrap(c.path(e.name), err)
}
