package files

import (
	"errors"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Options control how the path of an operation is resolved.
type Options struct {
	// NoFollow makes a symbolic link anywhere on the path an error, ErrSymlink. It uses openat2. If
	// the system lacks openat2, it opens one directory after the other.
	NoFollow bool
	// Confined is for the helper that performs confined requests. It permits writing only to a
	// regular file (else ErrNotFile) that is not reached through /proc (else ErrProc). A FIFO or
	// device is not opened at all, because a service outside of the sandbox may read commands from
	// it. Through /proc a request could write into the helper's memory, and so make the helper send
	// any answer.
	Confined bool
}

// open opens a path. Its errors contain the path. The caller closes the descriptor.
func open(name string, flags int, mode uint32, o Options) (int, error) {
	fd, err := openAt(unix.AT_FDCWD, name, flags, mode, o)
	return fd, wrap(name, err)
}

// openAt opens a path relative to a directory. Its errors do not contain the path.
func openAt(dir int, name string, flags int, mode uint32, o Options) (fd int, err error) {
	flags |= unix.O_CLOEXEC
	err = retry(func() error {
		if o.NoFollow {
			fd, err = openNoFollow(dir, name, flags, mode)
		} else {
			fd, err = unix.Openat(dir, name, flags, mode)
		}
		return err
	})
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// openTarget opens a file for writing, relative to a directory. Its errors do not contain the path,
// except for violations of this package's rules, which contain shown.
func openTarget(dir int, name, shown string, flags int, mode uint32, o Options) (int, error) {
	if o.Confined {
		return openConfined(dir, name, shown, flags|unix.O_CLOEXEC, mode, o.NoFollow)
	}
	return openAt(dir, name, flags, mode, o)
}

// openByComponents replaces openat2 with RESOLVE_NO_SYMLINKS. It opens one directory after the
// other, and fails if one of the names is a link.
func openByComponents(dir int, name string, flags int, mode uint32) (int, error) {
	start := "."
	if path.IsAbs(name) {
		start = "/"
	}
	at, err := unix.Openat(dir, start, anchor|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for rest := strings.Trim(name, "/"); ; {
		part, after, more := strings.Cut(rest, "/")
		rest = after
		if part == "" {
			part = "."
		}
		next, err := openComponent(at, part, more, flags, mode)
		_ = unix.Close(at)
		if err != nil || !more {
			return next, err
		}
		at = next
	}
}

// openComponent opens one component of a path. The component must not be a link and, if it is not
// the last one, it must be a directory.
func openComponent(at int, part string, onTheWay bool, flags int, mode uint32) (int, error) {
	if onTheWay {
		flags, mode = anchor|unix.O_CLOEXEC, 0
	}
	fd, err := unix.Openat(at, part, flags|unix.O_NOFOLLOW, mode)
	switch {
	case err == unix.ELOOP, err == unix.ENOTDIR && isLinkAt(at, part):
		return -1, ErrSymlink
	case err != nil:
		return -1, err
	case isOpenLink(fd, flags):
		_ = unix.Close(fd)
		return -1, ErrSymlink
	}
	return fd, nil
}

// isLinkAt reports whether a name in a directory is a symbolic link.
func isLinkAt(dir int, name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && fileType(&st) == unix.S_IFLNK
}

// openParent opens the directory that contains the last component of a path. Its errors contain the
// path itself.
func openParent(name string, o Options) (dir int, base string, err error) {
	base = path.Base(name)
	if base == "/" || base == "." {
		return -1, "", ErrRoot
	}
	dir, err = openAt(unix.AT_FDCWD, path.Dir(name), anchor, 0, o)
	return dir, base, wrap(name, err)
}

// openDirAt opens a directory to read its names. Its errors do not contain the path. For a link the
// error is ENOTDIR.
func openDirAt(dir int, name string) (fd int, err error) {
	fd, err = openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0, Options{})
	if err == unix.ELOOP {
		err = unix.ENOTDIR
	}
	return fd, err
}

// fileID identifies a file while it exists.
type fileID struct{ dev, ino uint64 }

func idOf(st *unix.Stat_t) fileID { return fileID{uint64(st.Dev), st.Ino} }

func fileType(st *unix.Stat_t) uint32 { return modeOf(st) & unix.S_IFMT }

// modeOf returns the type and the permissions. The width of st.Mode depends on the system.
func modeOf(st *unix.Stat_t) uint32 { return uint32(st.Mode) }

// isErrno reports whether err is errno, or an error that adds a path to it.
func isErrno(err error, errno syscall.Errno) bool { return errors.Is(err, errno) }
