//go:build unix

package egress

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// lock locks an open directory. The kernel releases the lock when the directory is closed or this
// program ends, also by a signal. The error is errors.ErrUnsupported if the file system has no
// locks.
func lock(dir *os.File) error {
	err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.ENOLCK) { // of NFS
		err = errors.ErrUnsupported
	}
	return err
}

// ownedByUser reports whether a file belongs to the user of this program.
func ownedByUser(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
