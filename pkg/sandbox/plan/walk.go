package plan

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"codex.internal/pkg/sandbox/permissions"
	"golang.org/x/sys/unix"
)

// mostHeld bounds the directories that a walk keeps open. Matches of patterns may be in thousands
// of directories. Directories that entries name are opened first.
const mostHeld = 256

// walk is the host's file system for one plan. It opens each directory relative to its parent, and
// keeps it open. So names are looked up in the same directories, whatever is moved meanwhile. Below
// directories that are not kept open, it follows no link.
type walk struct {
	held map[string]int    // O_PATH descriptors of directories
	seen map[string]FileID // other directories
}

// Walk returns the file system for one plan, and a function that ends its use.
func (HostView) Walk() (permissions.View, func()) {
	w := &walk{held: make(map[string]int), seen: make(map[string]FileID)}
	return w, w.close
}

func (w *walk) close() {
	for name, fd := range w.held {
		_ = unix.Close(fd)
		delete(w.held, name)
	}
}

// open opens a path relative to its deepest open parent directory, and does not
// follow a link at its end.
func (w *walk) open(name string, flags int) (fd int, err error) {
	dir, rel := unix.AT_FDCWD, name
	for at := name; at != "/"; {
		at = path.Dir(at)
		if held, ok := w.held[at]; ok {
			dir, rel = held, strings.TrimPrefix(name[len(at):], "/")
			break
		}
	}
	flags |= unix.O_CLOEXEC | unix.O_NOFOLLOW
	err = retry(func() error {
		if rel == "/" || !strings.Contains(rel, "/") {
			fd, err = unix.Openat(dir, rel, flags, 0)
			return err
		}
		fd, err = unix.Openat2(dir, rel, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS})
		return err
	})
	return fd, err
}

// Lstat implements permissions.View.
func (w *walk) Lstat(name string) (permissions.Info, error) {
	fd, err := w.open(name, unix.O_PATH)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return permissions.Info{}, nil
	case errors.Is(err, unix.ELOOP):
		return permissions.Info{}, &inconsistent{name} // a link in place of a directory
	case err != nil:
		return permissions.Info{}, fmt.Errorf("look at %s: %w", name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return permissions.Info{}, fmt.Errorf("look at %s: %w", name, err)
	}
	info := infoOf(&st)
	if info.Type == permissions.Dir && len(w.held) < mostHeld {
		w.held[name] = fd
		return info, nil
	}
	if info.Type == permissions.Dir {
		w.seen[name] = FileID{info.Dev, info.Ino}
	}
	_ = unix.Close(fd)
	return info, nil
}

// Readlink implements permissions.View.
func (w *walk) Readlink(name string) (string, error) {
	fd, err := w.open(name, unix.O_PATH)
	if err != nil {
		return "", fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(fd)
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", fmt.Errorf("readlink %s: %w", name, err)
	}
	return string(buf[:n]), nil
}

// ReadFile implements permissions.View.
func (w *walk) ReadFile(name string, limit int) ([]byte, error) {
	fd, err := w.open(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(limit)))
}

// ReadDir implements permissions.View. It reads the directory that was examined.
func (w *walk) ReadDir(name string, each func(name string, t permissions.FileType) error) error {
	fd, err := w.openDir(name)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(fd)
	if was, ok := w.seen[name]; ok && IDOf(fd) != was {
		return &inconsistent{name}
	}
	return readDir(fd, name, each)
}

// openDir opens a directory for reading, by its descriptor if it is kept open.
func (w *walk) openDir(name string) (fd int, err error) {
	held, ok := w.held[name]
	if !ok {
		return w.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	}
	err = retry(func() error {
		fd, err = unix.Openat(held, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, err
}
