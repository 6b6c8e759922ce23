package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// CheckKey returns the error that ReadKey would return, and creates nothing.
func CheckKey(path string) error {
	_, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return canCreate(path)
	}
	return err
}

// CheckFile returns the error with which Open could not use a file as a log. It creates nothing, and another
// server may have the file.
func CheckFile(path string) error {
	f, err := openOwn(path, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = canCreate(path)
	case err == nil:
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("audit log %s: %w", path, err)
	}
	return nil
}

// canCreate returns an error if this process cannot create a file.
func canCreate(path string) error {
	dir := filepath.Dir(path)
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "create files in", Path: dir, Err: err}
	}
	return nil
}
