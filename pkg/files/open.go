package files

import (
	"errors"
	"os"
	"path"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Options say how the path of an operation is taken.
type Options struct {
	// NoFollow makes a symbolic link anywhere on the path an error.
	NoFollow bool
}

// open opens a path. The descriptor is the caller's.
func open(name string, flags int, mode uint32, o Options) (fd int, err error) {
	flags |= unix.O_CLOEXEC
	err = retry(func() error {
		if o.NoFollow {
			fd, err = openNoFollow(name, flags, mode)
		} else {
			fd, err = unix.Open(name, flags|unix.O_LARGEFILE, mode)
		}
		return err
	})
	if err != nil {
		return -1, wrap(name, err)
	}
	return fd, nil
}

// noOpenat2 is set once the system turned out not to have openat2, or to
// have it filtered away.
var noOpenat2 atomic.Bool

// openNoFollow opens a path on which no link may be.
func openNoFollow(name string, flags int, mode uint32) (int, error) {
	if !noOpenat2.Load() {
		how := &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS}
		if flags&unix.O_CREAT != 0 {
			how.Mode = uint64(mode)
		}
		fd, err := unix.Openat2(unix.AT_FDCWD, name, how)
		switch {
		case err == unix.ELOOP:
			return -1, ErrSymlink
		case err == unix.ENOSYS, err == unix.EPERM:
			noOpenat2.Store(true)
		default:
			return fd, err
		}
	}
	return openByComponents(name, flags, mode)
}

// openByComponents does what openat2 would: it opens one directory after the
// other and lets none of the names be a link.
func openByComponents(name string, flags int, mode uint32) (int, error) {
	dir, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	rest := strings.Split(strings.Trim(name, "/"), "/")
	for i, part := range rest {
		last := i == len(rest)-1
		f := unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
		if last {
			f = flags
		}
		if part == "" {
			part = "."
		}
		fd, err := unix.Openat(dir, part, f|unix.O_NOFOLLOW, mode)
		if err == nil && last && flags&unix.O_PATH != 0 && isLink(fd) {
			_ = unix.Close(fd)
			err = unix.ELOOP
		}
		if err == unix.ENOTDIR && linkAt(dir, part) {
			err = unix.ELOOP
		}
		_ = unix.Close(dir)
		if err == unix.ELOOP {
			return -1, ErrSymlink
		}
		if err != nil {
			return -1, err
		}
		dir = fd
	}
	return dir, nil
}

func isLink(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

func linkAt(dir int, name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// openParent opens the directory that holds the last name of a path.
func openParent(name string, o Options) (dir int, base string, err error) {
	base = path.Base(name)
	if base == "/" || base == "." {
		return -1, "", rulef("the root directory cannot be changed")
	}
	dir, err = open(path.Dir(name), unix.O_PATH|unix.O_DIRECTORY, 0, o)
	if err != nil {
		var named *OSError
		if errors.As(err, &named) {
			named.Path = name
		}
		return -1, "", err
	}
	return dir, base, nil
}

// OpenRegular opens a regular file of at most MaxReadFile bytes for reading
// and returns its size at this moment.
func OpenRegular(name string, o Options) (*os.File, int64, error) {
	f, size, err := openRegular(name, o)
	if err != nil {
		return nil, 0, err
	}
	if size > MaxReadFile {
		_ = f.Close()
		return nil, 0, rulef("file is too large to read: limit is %d bytes", MaxReadFile)
	}
	return f, size, nil
}

// openRegular opens without waiting, as a pipe without a writer would.
func openRegular(name string, o Options) (*os.File, int64, error) {
	fd, err := open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0, o)
	if err != nil {
		if errors.Is(err, unix.ENXIO) { // a socket
			err = notAFile(name)
		}
		return nil, 0, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return nil, 0, wrap(name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		_ = unix.Close(fd)
		return nil, 0, notAFile(name)
	}
	return os.NewFile(uintptr(fd), name), st.Size, nil
}

func notAFile(name string) error { return rulef("path `%s` is not a file", name) }

// WriteFile creates or truncates a file and writes data to it. A new file
// gets mode 0666 less the umask.
func WriteFile(name string, data []byte, o Options) error {
	fd, err := open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o666, o)
	if err != nil {
		return err
	}
	err = writeAll(fd, data)
	if e := unix.Close(fd); err == nil {
		err = e
	}
	return wrap(name, err)
}

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		var n int
		err := retry(func() (err error) {
			n, err = unix.Write(fd, data)
			return err
		})
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}
