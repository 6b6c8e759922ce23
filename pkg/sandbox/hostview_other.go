//go:build !linux

package sandbox

import (
	"errors"
	"io/fs"
	"os"

	"codex.internal/pkg/sandbox/permissions"
)

// HostView is the file system that this program sees, for resolving policies.
type HostView struct{}

// Lstat implements permissions.View.
func (HostView) Lstat(name string) (permissions.Info, error) {
	st, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return permissions.Info{}, nil
	}
	if err != nil {
		return permissions.Info{}, err
	}
	return permissions.Info{Type: fileType(st.Mode()), Size: st.Size()}, nil
}

func fileType(mode fs.FileMode) permissions.FileType {
	switch {
	case mode.IsDir():
		return permissions.Dir
	case mode.IsRegular():
		return permissions.Regular
	case mode&fs.ModeSymlink != 0:
		return permissions.Symlink
	default:
		return permissions.Other
	}
}

// Readlink implements permissions.View.
func (HostView) Readlink(name string) (string, error) { return os.Readlink(name) }

// ReadFile implements permissions.View.
func (HostView) ReadFile(name string, limit int) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf := make([]byte, limit)
	n, err := f.Read(buf)
	return buf[:n], err
}

// ReadDir implements permissions.View.
func (HostView) ReadDir(name string, each func(name string, t permissions.FileType) error) error {
	entries, err := os.ReadDir(name)
	for _, e := range entries {
		if err := each(e.Name(), fileType(e.Type())); err != nil {
			return err
		}
	}
	return err
}
