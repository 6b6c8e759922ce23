package atomicfile

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks an open file until it is closed. It returns false if another process has locked it.
func tryLock(f *os.File) (bool, error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

// syncDir does nothing, because directories cannot be synced on this system.
func syncDir(string) error { return nil }

// isPrivate returns true, because the mode does not show that on this system.
func isPrivate(os.FileInfo) bool { return true }
