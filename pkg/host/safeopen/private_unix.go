//go:build unix

package safeopen

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

const noFollow = syscall.O_NOFOLLOW

// private returns an error if another user owns a file, or may read or change it.
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

// CheckOwn returns an error unless a file belongs to this user and has at most the permissions
// most.
func CheckOwn(what string, info fs.FileInfo, most fs.FileMode) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user", what)
	case info.Mode().Perm()&^most != 0:
		return fmt.Errorf("%s has the mode %04o, and may have at most %04o", what, info.Mode().Perm(), most)
	}
	return nil
}

// trusted returns an error for a file that belongs neither to this user nor to root.
func trusted(path string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user, who could exchange what is below it; name another directory", path)
	}
	return nil
}

// stays returns an error for a directory in which another user could rename files of this user. A
// group with the same number as the user counts as the user's own: some systems let this group
// write to all directories of the user.
func stays(path string, info fs.FileInfo) error {
	if err := trusted(path, info); err != nil {
		return err
	}
	st, mode := info.Sys().(*syscall.Stat_t), info.Mode()
	if others := mode&0o002 != 0 || mode&0o020 != 0 && st.Gid != st.Uid; others && mode&fs.ModeSticky == 0 {
		return fmt.Errorf("%s can be changed by other users (mode %04o), who could exchange what is below it; `chmod go-w %s`, or name another directory", path, mode.Perm(), path)
	}
	return nil
}
