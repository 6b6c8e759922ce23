package files

import (
	"path"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// anchor are the flags to open a directory as a starting point. That needs no permission to read
// its names.
const anchor = unix.O_PATH | unix.O_DIRECTORY

// accessFlags request the access rights that an open would need, without
// following a link.
const accessFlags = unix.AT_EACCESS | unix.AT_SYMLINK_NOFOLLOW

// noOpenat2 is set when openat2 turns out to be missing (before Linux 5.6) or to be blocked by a
// seccomp filter (in older containers).
var noOpenat2 atomic.Bool

// openNoFollow opens a path. If any component is a link, the error is ErrSymlink.
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

// openat2Works reports whether openat2 may be called. EPERM from openat2 can also mean that the
// file may not be opened.
func openat2Works() bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// isOpenLink reports whether fd is a symbolic link itself, which is possible with O_PATH.
func isOpenLink(fd, flags int) bool {
	if flags&(unix.O_PATH|unix.O_DIRECTORY) != unix.O_PATH {
		return false
	}
	var st unix.Stat_t
	err := unix.Fstatat(fd, "", &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH)
	return err == nil && fileType(&st) == unix.S_IFLNK
}

// openConfined opens a regular file for writing. For files of /proc, and for files reached through
// the magic links of /proc, such as /dev/stdout, the error is ErrProc. For other files that are not
// regular it is ErrNotFile. The type is checked before the file is opened for writing, because the
// reader of a FIFO would notice the open, and again afterwards. openConfined needs openat2 (Linux
// 5.6), as the sandbox does.
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
		case err == unix.ELOOP && resolvesOtherwise(dir, name, flags):
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
	// With O_TRUNC the kernel checks for a read-only file system before it checks
	// the file's mode, so the answer is EROFS.
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

// openToRead opens a file for reading, without waiting. For files of processes in /proc, and for
// files that are reached through the magic links there, the error is ErrProcess. Scenario: a client
// whose token may only read took the tokens of other clients from the server's /proc/self/mem.
// Launchers and keepers have secrets as well, and no request needs a process's files.
func openToRead(name string, o Options) (fd int, err error) {
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	if o.NoFollow || noOpenat2.Load() {
		fd, err = open(name, flags, 0, o)
	} else {
		how := unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_MAGICLINKS}
		err = retry(func() error {
			fd, err = unix.Openat2(unix.AT_FDCWD, name, &how)
			return err
		})
		switch {
		case err == unix.ELOOP && resolvesOtherwise(unix.AT_FDCWD, name, 0):
			return -1, ofProcess(name)
		case err == unix.ENOSYS, err == unix.EPERM && !openat2Works():
			noOpenat2.Store(true)
			return openToRead(name, o)
		}
		err = wrap(name, err)
	}
	if err != nil {
		return -1, err
	}
	err = refuseProcess(fd, name)
	if err == nil {
		err = refuseDenied(fd, name)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// denied reports whether a path without links is denied. If denied is nil, no path is.
var denied func(name string) bool

// Deny makes this package refuse to read files and directories for which f returns true. f gets
// paths without links. Deny is for a program that serves requests under one policy, and must be
// called before the first request.
func Deny(f func(name string) bool) { denied = f }

// refuseDenied returns an error if a file is denied or its path is unknown.
func refuseDenied(fd int, shown string) error {
	if denied == nil {
		return nil
	}
	if real, err := realPath(fd, shown); err != nil || denied(real) {
		return wrap(shown, unix.EACCES)
	}
	return nil
}

// refuseProcess returns an error for a file of a process in /proc: a file with a number in its
// path. The exceptions are status and comm, because they do not reveal data of the process, and
// clients of Codex CLI may read them.
func refuseProcess(fd int, shown string) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return wrap(shown, err)
	}
	if fs.Type != unix.PROC_SUPER_MAGIC {
		return nil
	}
	buf := make([]byte, maxLink)
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), buf)
	if err != nil {
		return ofProcess(shown)
	}
	real := string(buf[:n])
	if name := path.Base(real); name == "status" || name == "comm" {
		return nil
	}
	for part := range strings.SplitSeq(real, "/") {
		if _, err := strconv.ParseUint(part, 10, 64); err == nil {
			return ofProcess(shown)
		}
	}
	return nil
}

// resolvesOtherwise reports whether a path that failed with ELOOP under RESOLVE_NO_MAGICLINKS can
// be opened without that flag. Then the path contains a magic link of /proc, and not a loop of
// links.
func resolvesOtherwise(dir int, name string, flags int) bool {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_CLOEXEC|flags&unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// mustBeWritable returns an error for a file that is not regular or is in /proc. before means that
// the caller opens the file for writing next. Then mustBeWritable returns nil for directories and
// links, because that open returns their errors.
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

// openDirConfined opens a directory in which files will be created. It needs openat2 (Linux
// 5.6), as the sandbox does.
func openDirConfined(name string, flags int, noFollow bool) (fd int, err error) {
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_MAGICLINKS}
	if noFollow {
		how.Resolve |= unix.RESOLVE_NO_SYMLINKS
	}
	err = retry(func() error {
		fd, err = unix.Openat2(unix.AT_FDCWD, name, &how)
		return err
	})
	switch {
	case err == unix.ELOOP && noFollow:
		return -1, ErrSymlink
	case err == unix.ELOOP && resolvesOtherwise(unix.AT_FDCWD, name, 0):
		return -1, inProc(name)
	case err != nil:
		return -1, err
	}
	var fs unix.Statfs_t
	err = unix.Fstatfs(fd, &fs)
	if err == nil && fs.Type == unix.PROC_SUPER_MAGIC {
		err = inProc(name)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
