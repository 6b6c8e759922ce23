package files

import (
	"strings"

	"golang.org/x/sys/unix"
)

// CreateDirectory creates a directory with mode 0777, reduced by the umask. With recursive it also
// creates missing parents, and returns nil if the directory exists.
func CreateDirectory(name string, recursive bool, o Options) error {
	return CreateDirectoryWith(name, MaxPermissions, recursive, o)
}

// CreateDirectoryWith is CreateDirectory with given permissions for the directory itself. They do
// not apply to its parents or to an existing directory. If permissions are above MaxPermissions,
// the error is ErrPermissions.
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

// createWithParents goes up until it can create a directory, and creates the others on the way
// down.
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

// createNoFollow creates a directory. If any component of the path is a link, the error is
// ErrSymlink.
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

// mustBeDirectoryAt checks an existing name. It returns ErrSymlink for a link, nil for a directory
// if recursive is set, and otherwise EEXIST.
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

// createFromRoot creates a directory and its parents. It enters one directory after the other from
// the root, and follows no link.
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
