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
