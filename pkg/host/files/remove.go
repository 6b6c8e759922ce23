package files

import (
	"context"

	"golang.org/x/sys/unix"
)

// RemoveOptions control what Remove does with directories, links and missing paths.
type RemoveOptions struct {
	Options
	// Recursive removes a directory with its contents. Without it, the error for a directory that
	// is not empty is ENOTEMPTY.
	Recursive bool
	// Link makes Remove with NoFollow remove a link at the end of the path instead of refusing it.
	// Links earlier in the path are still refused.
	Link bool
	// Force makes Remove return nil for a path that does not exist.
	Force bool
}

// Remove removes a file, a link (not its target) or a directory. It never leaves the tree, whatever
// other processes change in it. It handles trees of any depth and width. It ignores names inside
// the tree that another process has removed. The first other error ends Remove, and names the file
// that could not be removed. With NoFollow, a path that is itself a link is ErrSymlink, unless Link
// is set. Links inside a tree are always removed and never followed.
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
	if o.NoFollow && !o.Link && isLinkAt(dir, base) {
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

// isFull reports whether err is one of the two errors that rmdir returns for a directory that is
// not empty.
func isFull(err error) bool { return err == unix.ENOTEMPTY || err == unix.EEXIST }

// batch holds names of a directory that must still be removed.
type batch struct {
	names []dirent
	whole bool // the directory has no other names
}

// empty removes the contents of the directory of c, depth first.
func empty(ctx context.Context, c *cursor) error {
	levels := []batch{{}}
	for {
		if err := checkContext(ctx); err != nil {
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
			// The names of the last batch are removed, so read the directory from its start again.
			if _, err := unix.Seek(c.fd, 0, unix.SEEK_SET); err != nil {
				return wrap(c.here(), err)
			}
			names, whole, err := readNames(ctx, c.fd, removeBatch)
			switch err {
			case nil:
				*level = batch{names, whole}
			case unix.ENOENT: // another process removed the directory
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

// removeEntry removes one name, or enters it if it is a directory that is not empty. The type in e
// may be out of date; it only decides which system call is tried first.
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
		if err == unix.ENOTDIR { // it is no longer a directory
			err = unlinkFile(c.fd, e.name)
		}
	}
	if err == nil || err == unix.ENOENT { // or another process removed it
		return false, nil
	}
	return false, wrap(c.path(e.name), err)
}
