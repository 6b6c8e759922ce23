//go:build linux || darwin

package dirfd

import (
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Dir is an open directory.
type Dir struct{ fd int }

// New takes over the descriptor of a directory that was opened for reading.
func New(fd int) *Dir { return &Dir{fd} }

// Open opens a directory by its path. Links on the path are followed.
func Open(path string) (*Dir, error) {
	fd, err := openat(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return &Dir{fd}, nil
}

// Close closes the directory.
func (d *Dir) Close() error { return unix.Close(d.fd) }

// ValidName reports whether a text can be a file name in a directory.
func ValidName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}

func openat(at int, name string, flags int, mode uint32) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(at, name, flags|unix.O_CLOEXEC, mode)
		return err
	})
	return fd, err
}

func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// Enter opens a subdirectory. For a link the error is ErrLink, for any other file ErrNotDirectory.
func (d *Dir) Enter(name string) (*Dir, error) {
	fd, err := openat(d.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch err {
	case nil:
		return &Dir{fd}, nil
	case unix.ELOOP:
		return nil, ErrLink
	case unix.ENOTDIR:
		if there, err := d.Lstat(name); err == nil && there.Kind == Link {
			return nil, ErrLink
		}
		return nil, ErrNotDirectory
	}
	return nil, err
}

// Lstat returns the Info of a name.
func (d *Dir) Lstat(name string) (Info, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Info{}, err
	}
	return infoOf(&st), nil
}

// Stat returns the Info of the directory itself.
func (d *Dir) Stat() (Info, error) { return fstat(d.fd) }

func fstat(fd int) (Info, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Info{}, err
	}
	return infoOf(&st), nil
}

func infoOf(st *unix.Stat_t) Info {
	i := Info{
		Kind: Other, Size: st.Size, Perm: uint32(st.Mode) & 0o777, Modified: time.Unix(st.Mtim.Unix()),
		UID: st.Uid, GID: st.Gid, HasHoles: st.Blocks*512 < st.Size,
	}
	switch uint32(st.Mode) & unix.S_IFMT {
	case unix.S_IFREG:
		i.Kind = Regular
	case unix.S_IFDIR:
		i.Kind = Directory
	case unix.S_IFLNK:
		i.Kind = Link
	}
	return i
}

// Names returns the names in the directory, sorted by their bytes. If there are more than limit
// names, the error is ErrTooManyNames.
func (d *Dir) Names(limit int) ([]string, error) {
	buf := make([]byte, namesBuffer)
	var names []string
	if _, err := unix.Seek(d.fd, 0, io.SeekStart); err != nil {
		return nil, err
	}
	for {
		var n int
		err := retry(func() (err error) {
			n, err = unix.ReadDirent(d.fd, buf)
			return err
		})
		if err != nil {
			return nil, err
		}
		if n == 0 {
			slices.Sort(names)
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
		if len(names) > limit {
			return nil, ErrTooManyNames
		}
	}
}

// Mkdir creates a directory with permissions perm, reduced by the umask.
func (d *Dir) Mkdir(name string, perm uint32) error { return unix.Mkdirat(d.fd, name, perm) }

// Readlink returns the target of a link.
func (d *Dir) Readlink(name string) (string, error) {
	buf := make([]byte, maxLink)
	n, err := unix.Readlinkat(d.fd, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// Symlink makes a link. Its target may be any text.
func (d *Dir) Symlink(target, name string) error { return unix.Symlinkat(target, d.fd, name) }

// Rename renames a file or directory within the directory. It replaces an existing file with the
// new name.
func (d *Dir) Rename(from, to string) error { return unix.Renameat(d.fd, from, d.fd, to) }

// Remove removes a file or a link.
func (d *Dir) Remove(name string) error { return unix.Unlinkat(d.fd, name, 0) }

// MayWrite returns an error if the user may not write to an existing file.
func (d *Dir) MayWrite(name string) error {
	return unix.Faccessat(d.fd, name, unix.W_OK, accessFlags)
}

// Chmod sets the permissions of the directory itself.
func (d *Dir) Chmod(perm uint32) error { return retry(func() error { return unix.Fchmod(d.fd, perm) }) }

// Chown sets the owner and the group of the directory itself.
func (d *Dir) Chown(uid, gid uint32) error { return unix.Fchown(d.fd, int(uid), int(gid)) }

// SetModified sets the modification time of the directory itself.
func (d *Dir) SetModified(at time.Time) error { return setModified(d.fd, at) }

// ChownLink sets the owner and the group of a link.
func (d *Dir) ChownLink(name string, uid, gid uint32) error {
	return unix.Fchownat(d.fd, name, int(uid), int(gid), unix.AT_SYMLINK_NOFOLLOW)
}

// File is an open regular file.
type File struct{ fd int }

// Open opens a regular file for reading, and returns its Info. For other files the error is ErrLink
// or ErrNotRegular. Callers check the type first, because opening a device may have effects.
func (d *Dir) Open(name string) (*File, Info, error) {
	fd, err := openat(d.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err == unix.ELOOP {
		err = ErrLink
	}
	if err != nil {
		return nil, Info{}, err
	}
	info, err := fstat(fd)
	if err == nil && info.Kind != Regular {
		err = ErrNotRegular
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, Info{}, err
	}
	return &File{fd}, info, nil
}

// Create creates a file for writing. It must not exist yet.
func (d *Dir) Create(name string, perm uint32) (*File, error) {
	fd, err := openat(d.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, perm)
	if err != nil {
		return nil, err
	}
	return &File{fd}, nil
}

// Overwrite opens an existing regular file for writing and removes its contents. For other files the error is
// ErrLink or ErrNotRegular.
func (d *Dir) Overwrite(name string) (*File, error) {
	fd, err := openat(d.fd, name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err == unix.ELOOP {
		err = ErrLink
	}
	if err != nil {
		return nil, err
	}
	f := &File{fd}
	info, err := f.Stat()
	if err == nil && info.Kind != Regular {
		err = ErrNotRegular
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Read reads up to len(b) bytes.
func (f *File) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	err = retry(func() error {
		n, err = unix.Read(f.fd, b)
		return err
	})
	switch {
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write writes all of b.
func (f *File) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Write(f.fd, b[done:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// SeekTo sets where the next Read or Write begins.
func (f *File) SeekTo(at int64) error {
	_, err := unix.Seek(f.fd, at, io.SeekStart)
	return err
}

// Truncate sets the size of a file that is open for writing.
func (f *File) Truncate(size int64) error {
	return retry(func() error { return unix.Ftruncate(f.fd, size) })
}

// Stat returns the Info of the file.
func (f *File) Stat() (Info, error) { return fstat(f.fd) }

// Chmod sets the permissions.
func (f *File) Chmod(perm uint32) error {
	return retry(func() error { return unix.Fchmod(f.fd, perm) })
}

// Chown sets the owner and the group.
func (f *File) Chown(uid, gid uint32) error { return unix.Fchown(f.fd, int(uid), int(gid)) }

// SetModified sets the modification time.
func (f *File) SetModified(at time.Time) error { return setModified(f.fd, at) }

// Close closes the file.
func (f *File) Close() error { return unix.Close(f.fd) }
