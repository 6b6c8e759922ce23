// Package safeopen opens files that must be regular files, without waiting. It is for files with a
// fixed path, such as those of CODEX_HOME. A sandboxed program that may create files there could
// replace such a file by a FIFO, for which os.Open would wait, or by a device. Files that a user
// names in an option are opened with package os, because they may be pipes, as <(...) of a shell
// creates them.
package safeopen

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrNotRegular is the error for a path to a file that is neither regular nor a directory.
var ErrNotRegular = errors.New("not a regular file")

// Open is os.OpenFile for a file that must be regular or must not exist. It never waits, and
// follows links. The error is syscall.EISDIR for a directory and ErrNotRegular for other files.
func Open(path string, flag int, perm fs.FileMode) (*os.File, error) {
	// Opening a device can have effects, so check the type first.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, notRegular(path, info)
	}
	f, err := os.OpenFile(path, flag|nonBlocking, perm)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat() // the path may lead to another file by now
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

// ReadFile reads a regular file of at most limit bytes, which it opens with Open.
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
