package files

import (
	"golang.org/x/sys/unix"
)

// Rename gives a file, a link or a directory a new name in one step: other processes always see
// exactly one of the two names. Links on the way to the two names are followed. If a name is itself
// a link, the link is renamed or replaced, and its target does not change.
//
// Without overwrite, the error for an existing destination is EEXIST, even if another process
// creates the destination meanwhile. With overwrite, a file or link replaces a file or link, and a
// directory replaces an empty directory. Otherwise the error is EISDIR, ENOTDIR or ENOTEMPTY.
//
// Errors: ErrSameFile, ErrIntoItself, ErrOtherFileSystem, ErrNoReplace, ErrBusy, ErrRoot, *OSError.
// If there is an error, nothing has changed.
func Rename(source, destination string, overwrite bool) error {
	r := renaming{source: source, destination: destination, overwrite: overwrite}
	var err error
	if r.from, r.old, err = openParent(source, Options{}); err != nil {
		return err
	}
	defer unix.Close(r.from)
	if r.to, r.new, err = openParent(destination, Options{}); err != nil {
		return err
	}
	defer unix.Close(r.to)
	var old, there unix.Stat_t
	if err := unix.Fstatat(r.from, r.old, &old, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return wrap(source, err)
	}
	// If both names refer to one file, the kernel does nothing and reports success.
	if unix.Fstatat(r.to, r.new, &there, unix.AT_SYMLINK_NOFOLLOW) == nil && idOf(&old) == idOf(&there) {
		return ruleErr(ErrSameFile, "`"+source+"` and `"+destination+"` are the same file")
	}
	return r.failed(idOf(&old), retry(func() error { return renameAt(r.from, r.old, r.to, r.new, overwrite) }))
}

// renaming is one Rename: names in open directories, and the paths for errors.
type renaming struct {
	from, to            int
	old, new            string
	source, destination string
	overwrite           bool
}

// failed returns the error of the system call with the path that it concerns. id is the id of the
// source.
func (r *renaming) failed(id fileID, err error) error {
	switch err {
	case unix.EXDEV:
		// The kernel compares the mounts before it checks write permission. If a directory is not
		// writable, a copy would fail too, so report that error first.
		if err := r.unwritable(); err != nil {
			return err
		}
		return ruleErr(ErrOtherFileSystem, "`"+r.source+"` and `"+r.destination+"` are on different file systems, "+
			"or in different mounts of the sandbox (os error 18): copy with fs/copy, then remove the source with fs/remove")
	case unix.EACCES, unix.EPERM, unix.EROFS:
		if err := r.unwritable(); err != nil {
			return err
		}
		return wrap(r.source+" to "+r.destination, err)
	case unix.EINVAL:
		if within, _ := isWithin(r.to, id); within {
			return ruleErr(ErrIntoItself, "a directory cannot be moved into itself: "+r.source)
		}
		if !r.overwrite {
			return ErrNoReplace
		}
		return wrap(r.source, err)
	case unix.ENOSYS:
		return ErrNoReplace
	case unix.EBUSY:
		return ruleErr(ErrBusy, "`"+r.source+"` or `"+r.destination+"` is a mount point, or is protected by the sandbox")
	case unix.EEXIST, unix.ENOTEMPTY, unix.EISDIR, unix.ENOTDIR, unix.ENOSPC, unix.EDQUOT, unix.EMLINK:
		return wrap(r.destination, err)
	default:
		return wrap(r.source, err)
	}
}

// unwritable returns an error if one of the two directories may not be written to.
func (r *renaming) unwritable() error {
	if err := unix.Faccessat(r.from, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return wrap(r.source, err)
	}
	return wrap(r.destination, unix.Faccessat(r.to, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS))
}
