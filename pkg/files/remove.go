package files

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// RemoveOptions say what Remove does with directories and missing paths.
type RemoveOptions struct {
	Options
	// Recursive removes what is in a directory with it.
	Recursive bool
	// Force makes a missing path no error.
	Force bool
}

// Remove removes a file, a link (not what it leads to) or a directory. It
// never leaves the tree, whatever is changed in it meanwhile.
func Remove(ctx context.Context, name string, o RemoveOptions) error {
	err := remove(ctx, name, o)
	if o.Force && errors.Is(err, unix.ENOENT) {
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
	if o.NoFollow && linkAt(dir, base) {
		return ErrSymlink
	}
	err = unlink(dir, base)
	if !isDirectory(err) {
		return wrap(name, err)
	}
	err = unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
	if err == nil || !o.Recursive || err != unix.ENOTEMPTY && err != unix.EEXIST {
		return wrap(name, err)
	}
	top, err := openDirAt(dir, base)
	if err != nil {
		return wrap(name, err)
	}
	if err := removeContents(ctx, newCursor(name, top)); err != nil {
		return err
	}
	return wrap(name, unix.Unlinkat(dir, base, unix.AT_REMOVEDIR))
}

func unlink(dir int, name string) error {
	return retry(func() error { return unix.Unlinkat(dir, name, 0) })
}

// isDirectory tells the errors with which unlink refuses a directory: EISDIR
// on Linux, EPERM where POSIX is followed. EPERM can mean other things too;
// then the attempt to remove a directory says ENOTDIR or EPERM again.
func isDirectory(err error) bool { return err == unix.EISDIR || err == unix.EPERM }

// removeContents empties the directory of c, which it closes.
func removeContents(ctx context.Context, c *cursor) error {
	defer c.close()
	names, err := c.list()
	if err != nil {
		return wrap(c.path("."), err)
	}
	todo := [][]dirent{names}
	for {
		if err := ended(ctx); err != nil {
			return err
		}
		level := &todo[len(todo)-1]
		if len(*level) == 0 {
			if c.depth() == 0 {
				return nil
			}
			left, err := c.leave()
			if err != nil {
				return wrap(c.path("."), err)
			}
			if err := unix.Unlinkat(c.dir, left, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
				return wrap(c.path(left), err)
			}
			todo = todo[:len(todo)-1]
			continue
		}
		e := (*level)[0]
		*level = (*level)[1:]
		deeper, err := removeEntry(c, e)
		if err != nil {
			return wrap(c.path(e.name), err)
		}
		if deeper {
			names, err := c.list()
			if err != nil {
				return wrap(c.path("."), err)
			}
			todo = append(todo, names)
		}
	}
}

// removeEntry removes one name, or enters it when it is a directory that is
// not empty.
func removeEntry(c *cursor, e dirent) (entered bool, err error) {
	if e.mode != unix.S_IFDIR {
		err := unlink(c.dir, e.name)
		if !isDirectory(err) {
			return false, ignoreMissing(err)
		}
	}
	err = unix.Unlinkat(c.dir, e.name, unix.AT_REMOVEDIR)
	switch err {
	case unix.ENOTEMPTY, unix.EEXIST:
		return true, c.enter(e.name)
	case unix.ENOTDIR: // it was one a moment ago
		return false, ignoreMissing(unlink(c.dir, e.name))
	default:
		return false, ignoreMissing(err)
	}
}

// ignoreMissing forgives that somebody else was faster.
func ignoreMissing(err error) error {
	if err == unix.ENOENT {
		return nil
	}
	return err
}
