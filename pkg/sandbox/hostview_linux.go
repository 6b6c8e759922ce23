package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"codex.internal/pkg/permissions"
	"golang.org/x/sys/unix"
)

// HostView is the file system that this program sees, for resolving policies.
type HostView struct{}

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
	return permissions.Info{
		Type: fileType(st.Mode), Size: st.Size, Dev: uint64(st.Dev), Ino: st.Ino,
		Mine: int(st.Uid) == unix.Geteuid(), Sticky: st.Mode&(unix.S_IFMT|unix.S_ISVTX) == unix.S_IFDIR|unix.S_ISVTX,
	}, nil
}

// CanReplace reports whether the user may remove what a path names, or could
// after a change of the directory's mode.
func (HostView) CanReplace(name string) bool {
	var st unix.Stat_t
	dir := path.Dir(name)
	return unix.Access(dir, unix.W_OK) == nil || unix.Stat(dir, &st) != nil || int(st.Uid) == unix.Geteuid()
}

// IsTemporary reports whether a value of $TMPDIR is a directory for the user's
// temporary files: the user owns it, or it is sticky, as /tmp is. The root
// directory is none. For root, who owns most directories, one right below it is
// none either unless it is sticky. What is missing grants nothing, and may
// pass.
func IsTemporary(name string) bool {
	var st unix.Stat_t
	real, err := permissions.EffectivePath(HostView{}, path.Clean(name))
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

// ReadDir implements permissions.View.
func (HostView) ReadDir(name string, each func(name string, t permissions.FileType) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(readDirBatch)
		for _, e := range entries {
			t := permissions.Other
			switch mode := e.Type(); {
			case mode.IsRegular():
				t = permissions.Regular
			case mode.IsDir():
				t = permissions.Dir
			case mode&os.ModeSymlink != 0:
				t = permissions.Symlink
			}
			if err := each(e.Name(), t); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readDirBatch is how many directory entries are held at a time.
const readDirBatch = 256

func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
