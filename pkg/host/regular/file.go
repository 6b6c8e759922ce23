// Package regular opens files that must be regular ones, without waiting. It is
// for files whose place is known, such as those of CODEX_HOME: a program that may
// make files there could put a FIFO in the place of one, and opening that would
// wait for ever, or a device. Files that a user names in an option may be pipes,
// as <(...) of a shell makes them, and are opened with package os.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrNotRegular says that a path leads to something that is no regular file.
var ErrNotRegular = errors.New("not a regular file")

// Open is os.OpenFile for a file that must be a regular one, or not be there. It
// never waits. A link is followed. The error is
// syscall.EISDIR for a directory and ErrNotRegular for anything else.
func Open(path string, flag int, perm fs.FileMode) (*os.File, error) {
	// Opening a device can have effects, so it is not opened to find out.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, notRegular(path, info)
	}
	f, err := os.OpenFile(path, flag|nonBlocking, perm)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat() // of this one: the path may lead to another by now
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(path, info)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func notRegular(path string, info fs.FileInfo) error {
	why := ErrNotRegular
	if info.IsDir() {
		why = syscall.EISDIR
	}
	return &fs.PathError{Op: "open", Path: path, Err: why}
}

// ReadFile reads a regular file of at most limit bytes, as Open opens
// it.
func ReadFile(path string, limit int) ([]byte, error) {
	f, err := Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(text) > limit {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is larger than %d bytes", limit)}
	}
	return text, nil
}
