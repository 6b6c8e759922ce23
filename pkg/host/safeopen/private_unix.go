//go:build unix

package safeopen

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

const noFollow = syscall.O_NOFOLLOW

// private returns an error for a file that another user owns, may read or may
// change.
func private(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return &fs.PathError{Op: "read", Path: path, Err: ErrNotPrivate}
	}
	forbidden := fs.FileMode(0o077)
	switch int(stat.Uid) {
	case os.Geteuid():
	case 0:
		forbidden = 0o027
	default:
		return &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it belongs to user %d, and must belong to this user or to root", stat.Uid)}
	}
	if mode := info.Mode().Perm(); mode&forbidden != 0 {
		return &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it has mode %04o: %w", mode, ErrNotPrivate)}
	}
	return nil
}
