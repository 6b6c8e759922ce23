//go:build unix

package atomicfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks an open file until it is closed. It returns false if another process has locked it.
func tryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// syncDir makes a rename durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// isPrivate reports whether no other user can read or change a file. The file's group may read it,
// because services get their secrets that way.
func isPrivate(info os.FileInfo) bool { return info.Mode().Perm()&0o026 == 0 }
