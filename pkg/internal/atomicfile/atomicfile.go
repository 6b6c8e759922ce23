// Package atomicfile reads, replaces and locks small files that control access: tokens, and the
// state of a service. Files are private to their user.
package atomicfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"codex.internal/pkg/host/safeopen"
	"codex.internal/pkg/wire/jsonwire"
)

// lockPause is the pause between two attempts to lock a file.
const lockPause = 10 * time.Millisecond

// ErrLocked means that another process has locked a file.
var ErrLocked = errors.New("another process has it locked")

// ReadBounded reads a file of at most limit bytes that no other user may read or change. It also
// returns the file's FileInfo. The error for a missing file is an fs.ErrNotExist.
func ReadBounded(path string, limit int64) ([]byte, os.FileInfo, error) {
	f, err := safeopen.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat() // the identity of this file: the path may lead to another by now
	if err != nil {
		return nil, nil, err
	}
	if !isPrivate(info) {
		return nil, nil, fmt.Errorf("%s can be read or changed by other users (mode %04o); chmod 600 it", path, info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, nil, err // with the path
	}
	if int64(len(data)) > limit {
		return nil, nil, fmt.Errorf("%s exceeds %d bytes; is it the right file?", path, limit)
	}
	return data, info, nil
}

// Write replaces a file by one that only this user can read. Readers see either the old or the new
// content, even after a crash.
func Write(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // a second time at worst
			_ = os.Remove(f.Name())
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	// CreateTemp has created the file with mode 0600.
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return Rename(f.Name(), path)
}

// Rename replaces a file by another one of the same file system, whose content is on the disk. Readers see either
// the old or the new file, even after a crash.
func Rename(from, path string) error {
	if err := os.Rename(from, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// Lock locks a file by a lock file next to it, which is not removed. It returns the function that
// unlocks the file. If another process has the lock, Lock waits until ctx ends, and then returns an
// ErrLocked.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory; name a file", path) // before a lock file is made
	}
	name := path + ".lock"
	f, err := safeopen.Open(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		locked, err := tryLock(f)
		if err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		if locked {
			return func() { _ = f.Close() }, nil
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("%s: %w", path, ErrLocked)
		}
	}
}

// DecodeDocument decodes a file whose content is one JSON object. An unknown member is an error,
// and so is a name that differs only in the case of its letters: another reader of the file would
// see another secret or role in it.
func DecodeDocument(data []byte, document any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("the file is empty")
	}
	if err := jsonwire.UnmarshalKnown(data, document); err != nil {
		return fmt.Errorf("it cannot be read as JSON: %w", err)
	}
	return nil
}

// IsMissing reports whether an error means that a file does not exist.
func IsMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
