package safeopen

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrNotPrivate is the error of ReadPrivate for a file that other users may read
// or change.
var ErrNotPrivate = errors.New("other users may read or change it; run `chmod 600` on it")

// ReadPrivate reads a secret of at most limit bytes from a regular file. The last element of the
// path must not be a symbolic link, because the link's owner could choose the file. The file must
// belong to this user or to root, and no other user may read or change it. The group may read a
// file of root, because services get their secrets that way. The errors contain the path.
func ReadPrivate(path string, limit int) ([]byte, error) {
	f, err := Open(path, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = private(path, info)
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(text) > limit {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is larger than %d bytes", limit)}
	}
	return text, nil
}
