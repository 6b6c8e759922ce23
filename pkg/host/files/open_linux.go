package files

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// anchor opens a directory only to start from: it needs no permission to read
// its names.
const anchor = unix.O_PATH | unix.O_DIRECTORY

// accessFlags ask for the rights that an open would have, without following a
// link.
const accessFlags = unix.AT_EACCESS | unix.AT_SYMLINK_NOFOLLOW

// noOpenat2 is set once the system turned out not to have openat2 (before
// Linux 5.6), or to have it filtered away (in older containers).
var noOpenat2 atomic.Bool

// openNoFollow opens a path on which no link may be.
func openNoFollow(dir int, name string, flags int, mode uint32) (int, error) {
	if noOpenat2.Load() {
		return openByComponents(dir, name, flags, mode)
	}
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS}
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(mode)
	}
	fd, err := unix.Openat2(dir, name, &how)
	switch {
	case err == unix.ELOOP:
		return -1, ErrSymlink
	case err == unix.ENOSYS, err == unix.EPERM && !openat2Works():
		noOpenat2.Store(true)
		return openByComponents(dir, name, flags, mode)
	}
	return fd, err
}

// openat2Works tells a file that may not be opened from a system call that may
// not be made.
func openat2Works() bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// isOpenLink reports whether what was opened is a symbolic link itself, as
// O_PATH does it.
func isOpenLink(fd, flags int) bool {
	if flags&(unix.O_PATH|unix.O_DIRECTORY) != unix.O_PATH {
		return false
	}
	var st unix.Stat_t
	err := unix.Fstatat(fd, "", &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH)
	return err == nil && fileType(&st) == unix.S_IFLNK
}

// openConfined opens a file to write to it, if it is a regular one and not
// reached through /proc: neither a file of /proc nor by one of its magic links,
// as /dev/stdout is. What is there is looked at before it is opened for writing,
// because to open a FIFO is felt at its other end, and again afterwards. A kernel
// without openat2 (before Linux 5.6) has no sandbox either.
func openConfined(dir int, name, shown string, flags int, mode uint32, noFollow bool) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | uint64(flags&unix.O_NOFOLLOW), Resolve: unix.RESOLVE_NO_MAGICLINKS}
	if noFollow {
		how.Resolve |= unix.RESOLVE_NO_SYMLINKS
	}
	open := func() (fd int, err error) {
		err = retry(func() error {
			fd, err = unix.Openat2(dir, name, &how)
			return err
		})
		switch {
		case err == unix.ELOOP && noFollow:
			return -1, ErrSymlink
		case err == unix.ELOOP && leadsSomewhere(dir, name, flags):
			return -1, inProc(shown)
		}
		return fd, err
	}
	fd, err := open()
	if err == nil {
		err = mustBeWritable(fd, shown, true)
		_ = unix.Close(fd)
	}
	if err != nil && err != unix.ENOENT {
		return -1, err
	}
	// With O_TRUNC: a read-only file system is then found out about before a
	// file's mode is, and requests are answered with EROFS.
	how.Flags = uint64(flags)
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(mode)
	}
	if fd, err = open(); err != nil {
		return -1, err
	}
	if err = mustBeWritable(fd, shown, false); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// leadsSomewhere reports whether a path that may not be followed because of a
// link could be followed otherwise: then the link is a magic one of /proc, and
// not one of a loop.
func leadsSomewhere(dir int, name string, flags int) bool {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_CLOEXEC|flags&unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// mustBeWritable refuses what is not a regular file, or lies in /proc. Before a
// file is opened for writing, the open itself has the errors of directories and
// links.
func mustBeWritable(fd int, shown string, before bool) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	kind := fileType(&st)
	if before && (kind == unix.S_IFDIR || kind == unix.S_IFLNK) {
		return nil
	}
	if kind != unix.S_IFREG {
		return notFile(shown)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if fs.Type == unix.PROC_SUPER_MAGIC {
		return inProc(shown)
	}
	return nil
}
