package files

import (
	"strings"

	"golang.org/x/sys/unix"
)

// CreateDirectory makes a directory with mode 0777 less the umask. With recursive
// it makes missing parents too, and returns nil for a directory that exists.
func CreateDirectory(name string, recursive bool, o Options) error {
	return CreateDirectoryWith(name, MaxPermissions, recursive, o)
}

// CreateDirectoryWith is CreateDirectory with given permissions for the directory
// itself. Its parents, and an existing directory, do not get them. Permissions
// above MaxPermissions are ErrPermissions.
func CreateDirectoryWith(name string, permissions uint32, recursive bool, o Options) error {
	if permissions > MaxPermissions {
		return ErrPermissions
	}
	if o.NoFollow {
		return createNoFollow(name, permissions, recursive)
	}
	err := mkdir(name, permissions)
	switch {
	case recursive && err == unix.EEXIST:
		return mustBeDirectory(name)
	case recursive && err == unix.ENOENT:
		return createWithParents(name, permissions)
	}
	return wrap(name, err)
}

func mkdir(name string, mode uint32) error {
	return retry(func() error { return unix.Mkdir(name, mode) })
}

// mustBeDirectory returns EEXIST unless name is a directory.
func mustBeDirectory(name string) error {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil || fileType(&st) != unix.S_IFDIR {
		return wrap(name, unix.EEXIST)
	}
	return nil
}

// createWithParents goes up until a directory can be made, and makes the others
// on the way down.
func createWithParents(name string, mode uint32) error {
	end := len(name)
	for err := error(unix.ENOENT); err == unix.ENOENT; {
		end = strings.LastIndexByte(name[:end], '/')
		if end <= 0 {
			return wrap(name, unix.ENOENT)
		}
		if err = mkdir(name[:end], MaxPermissions); err == unix.EEXIST {
			err = mustBeDirectory(name[:end])
		}
		if err != nil && err != unix.ENOENT {
			return wrap(name[:end], err)
		}
	}
	for end < len(name) {
		if i := strings.IndexByte(name[end+1:], '/'); i >= 0 {
			end += 1 + i
		} else {
			end = len(name)
		}
		permissions := uint32(MaxPermissions)
		if end == len(name) {
			permissions = mode
		}
		err := mkdir(name[:end], permissions)
		if err == unix.EEXIST { // another process made it
			err = mustBeDirectory(name[:end])
		}
		if err != nil {
			return wrap(name[:end], err)
		}
	}
	return nil
}

// createNoFollow makes a directory; a link anywhere on its path is ErrSymlink.
func createNoFollow(name string, mode uint32, recursive bool) error {
	if name == "/" {
		if recursive {
			return nil
		}
		return wrap(name, unix.EEXIST)
	}
	dir, base, err := openParent(name, Options{NoFollow: true})
	if recursive && isErrno(err, unix.ENOENT) {
		return createFromRoot(name, mode)
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	err = unix.Mkdirat(dir, base, mode)
	if err == unix.EEXIST {
		err = mustBeDirectoryAt(dir, base, recursive)
	}
	return wrap(name, err)
}

// mustBeDirectoryAt checks an existing name: it returns ErrSymlink for a link, nil
// for a directory with recursive, else EEXIST.
func mustBeDirectoryAt(dir int, base string, recursive bool) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	switch {
	case fileType(&st) == unix.S_IFLNK:
		return ErrSymlink
	case recursive && fileType(&st) == unix.S_IFDIR:
		return nil
	default:
		return unix.EEXIST
	}
}

// createFromRoot makes a directory and its parents. It enters each directory in
// turn and follows no link.
func createFromRoot(name string, mode uint32) error {
	at, err := unix.Open("/", anchor|unix.O_CLOEXEC, 0)
	if err != nil {
		return wrap(name, err)
	}
	parts := strings.Split(strings.Trim(name, "/"), "/")
	for i, part := range parts {
		permissions := uint32(MaxPermissions)
		if i == len(parts)-1 {
			permissions = mode
		}
		next, err := openComponent(at, part, true, 0, 0)
		if err == unix.ENOENT {
			if err = unix.Mkdirat(at, part, permissions); err == nil || err == unix.EEXIST {
				next, err = openComponent(at, part, true, 0, 0)
			}
		}
		_ = unix.Close(at)
		if err != nil {
			return wrap(name, err)
		}
		at = next
	}
	return wrap(name, unix.Close(at))
}
