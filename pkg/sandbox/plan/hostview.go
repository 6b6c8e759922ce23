package plan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"

	"codex.internal/pkg/sandbox/permissions"
	"golang.org/x/sys/unix"
)

// HostView is the file system that this program sees, for resolving policies.
type HostView struct{}

// euid is determined once: a plan checks a hundred files.
var euid = sync.OnceValue(unix.Geteuid)

// Lstat implements permissions.View.
func (HostView) Lstat(name string) (permissions.Info, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Lstat(name, &st) })
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return permissions.Info{}, nil
	case err != nil:
		return permissions.Info{}, fmt.Errorf("lstat %s: %w", name, err)
	}
	return infoOf(&st), nil
}

func infoOf(st *unix.Stat_t) permissions.Info {
	return permissions.Info{
		Type: fileType(st.Mode), Size: st.Size, Dev: uint64(st.Dev), Ino: st.Ino,
		Mine: int(st.Uid) == euid(), Sticky: st.Mode&(unix.S_IFMT|unix.S_ISVTX) == unix.S_IFDIR|unix.S_ISVTX,
	}
}

// CanReplace reports whether the user may remove the file at a path, or could do so after changing
// the directory's mode.
func (HostView) CanReplace(name string) bool {
	var st, own unix.Stat_t
	dir := path.Dir(name)
	if me := unix.Geteuid(); me != 0 && unix.Stat(dir, &st) == nil && st.Mode&unix.S_ISVTX != 0 && int(st.Uid) != me &&
		unix.Lstat(name, &own) == nil && int(own.Uid) != me {
		return false // as in /tmp, where only the owner of a name can remove it
	}
	return unix.Access(dir, unix.W_OK) == nil || unix.Stat(dir, &st) != nil || int(st.Uid) == unix.Geteuid()
}

// IsTemporary reports whether a value of $TMPDIR is a directory for the user's temporary files: the
// user owns it, or it is sticky, as /tmp is. The root directory never is. For root, who owns most
// directories, a directory directly below / counts only if it is sticky. A missing directory is
// accepted, because it grants nothing. A link of another user is not followed, because that user
// could choose to which of the user's directories a command may write.
func IsTemporary(name string) bool {
	var st unix.Stat_t
	real, err := permissions.EffectivePath(ownLinks{}, path.Clean(name))
	if err != nil || real == "/" {
		return false
	}
	if err := unix.Stat(real, &st); err != nil {
		return errors.Is(err, unix.ENOENT)
	}
	if st.Mode&unix.S_ISVTX != 0 {
		return true
	}
	return int(st.Uid) == unix.Geteuid() && (st.Uid != 0 || depth(real) > 1)
}

// ownLinks is HostView in which links of users other than this one and root
// cannot be read.
type ownLinks struct{ HostView }

// Readlink implements permissions.View.
func (v ownLinks) Readlink(name string) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		return "", fmt.Errorf("lstat %s: %w", name, err)
	}
	if st.Uid != 0 && int(st.Uid) != unix.Geteuid() {
		return "", fmt.Errorf("readlink %s: it belongs to another user", name)
	}
	return v.HostView.Readlink(name)
}

func fileType(mode uint32) permissions.FileType {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return permissions.Dir
	case unix.S_IFREG:
		return permissions.Regular
	case unix.S_IFLNK:
		return permissions.Symlink
	default:
		return permissions.Other
	}
}

// Readlink implements permissions.View.
func (HostView) Readlink(name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlink(name, buf)
	if err != nil {
		return "", fmt.Errorf("readlink %s: %w", name, err)
	}
	return string(buf[:n]), nil
}

// ReadFile implements permissions.View.
func (HostView) ReadFile(name string, limit int) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(limit)))
}

// ReadDir implements permissions.View. A pattern may search a hundred thousand directories before a
// command starts, so ReadDir requests only names and types from the kernel.
func (HostView) ReadDir(name string, each func(name string, t permissions.FileType) error) error {
	fd := -1
	err := retry(func() (err error) {
		fd, err = unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		return err
	})
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(fd)
	return readDir(fd, name, each)
}

func readDir(fd int, name string, each func(name string, t permissions.FileType) error) error {
	buf := make([]byte, readDirSize)
	for {
		n := 0
		err := retry(func() (err error) {
			n, err = unix.Getdents(fd, buf)
			return err
		})
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if n == 0 {
			return nil
		}
		// struct linux_dirent64: inode, offset, size, type, name and a NUL.
		for rest := buf[:n]; len(rest) > 0; {
			size := binary.NativeEndian.Uint16(rest[16:])
			entry, _, _ := strings.Cut(string(rest[19:size]), "\x00")
			if entry != "." && entry != ".." {
				if err := each(entry, fileType(uint32(rest[18])<<12)); err != nil {
					return err
				}
			}
			rest = rest[size:]
		}
	}
}

// readDirSize is how many bytes of directory entries are held at a time.
const readDirSize = 8 << 10

func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// openTries bounds how often Openat2 retries, so that a command that renames files all the
// time cannot block the caller for ever.
const openTries = 1000

// Openat2 is openat2(2). It repeats the call if a signal interrupts it or the kernel returns
// EAGAIN.
//
// Scenario: a path with ".." is resolved below a root (RESOLVE_IN_ROOT, RESOLVE_BENEATH).
// If any process of the machine renames or mounts something meanwhile, the kernel cannot
// tell whether the path has left the root, and returns EAGAIN.
func Openat2(dir int, name string, how *unix.OpenHow) (fd int, err error) {
	for range openTries {
		if fd, err = unix.Openat2(dir, name, how); !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return fd, err
}

// IDOf returns the identity of an open file.
func IDOf(fd int) FileID {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return FileID{}
	}
	return FileID{uint64(st.Dev), st.Ino}
}
