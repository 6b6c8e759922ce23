package files

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ReadHandle is a regular file that is open for reading. It goes on reading
// the file that it opened, whatever happens to the name.
type ReadHandle struct{ f *os.File }

// OpenRead opens a regular file of any size.
func OpenRead(name string) (*ReadHandle, error) {
	f, _, err := openRegular(name, Options{})
	if err != nil {
		return nil, err
	}
	return &ReadHandle{f}, nil
}

// ReadAt fills b from the given offset; eof says that the file ended before b
// was full.
func (h *ReadHandle) ReadAt(b []byte, offset uint64) (n int, eof bool, err error) {
	if offset > math.MaxInt64-uint64(len(b)) {
		return 0, false, wrap(h.f.Name(), unix.EINVAL)
	}
	n, err = h.f.ReadAt(b, int64(offset))
	if errors.Is(err, io.EOF) {
		return n, n < len(b), nil
	}
	return n, false, wrap(h.f.Name(), err)
}

// Close ends the handle.
func (h *ReadHandle) Close() error { return wrap(h.f.Name(), h.f.Close()) }

// WriteOptions say how a file is replaced.
type WriteOptions struct {
	Options
	// Atomic writes into a temporary file beside the target, which takes the
	// target's place with Close. Until then, and after Abort, the target is
	// as it was.
	Atomic bool
}

// WriteHandle is a file that is being replaced: truncated at once, or at the
// end when it is atomic.
type WriteHandle struct {
	f    *os.File
	name string
	// For atomic writes: the directory, the temporary name in it and the
	// name that it is to get.
	dir        int
	temp, base string
}

// OpenWrite begins to replace a file, which need not exist.
func OpenWrite(name string, o WriteOptions) (*WriteHandle, error) {
	if o.Atomic {
		return openAtomic(name, o.Options)
	}
	fd, err := open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o666, o.Options)
	if err != nil {
		return nil, err
	}
	return &WriteHandle{f: os.NewFile(uintptr(fd), name), name: name, dir: -1}, nil
}

// openAtomic makes the temporary file. Where the name is a link, the file
// that it leads to is replaced, as a plain write would do.
func openAtomic(name string, o Options) (*WriteHandle, error) {
	target := name
	if !o.NoFollow {
		if real, err := filepath.EvalSymlinks(name); err == nil {
			target = real
		}
	}
	dir, base, err := openParent(target, o)
	if err != nil {
		return nil, err
	}
	h := &WriteHandle{name: name, dir: dir, base: base}
	if err := h.makeTemp(); err != nil {
		_ = unix.Close(dir)
		return nil, wrap(name, err)
	}
	return h, nil
}

func (h *WriteHandle) makeTemp() error {
	mode, exists := uint32(0o666), false
	var st unix.Stat_t
	switch err := unix.Fstatat(h.dir, h.base, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == unix.ENOENT:
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return notAFile(h.name)
	default:
		mode, exists = st.Mode&0o777, true
	}
	for range tempTries {
		h.temp = "." + rand.Text() + ".tmp"
		fd, err := unix.Openat(h.dir, h.temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		if err == unix.EEXIST || err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		h.f = os.NewFile(uintptr(fd), path.Join(path.Dir(h.name), h.temp))
		if exists {
			// The umask must not take away what the file had.
			return unix.Fchmod(fd, mode)
		}
		return nil
	}
	return fmt.Errorf("no free name for a temporary file beside %s", h.name)
}

// WriteAt writes at the given offset; what no write covers is zero.
func (h *WriteHandle) WriteAt(b []byte, offset uint64) error {
	if offset > math.MaxInt64-uint64(len(b)) {
		return wrap(h.name, unix.EINVAL)
	}
	_, err := h.f.WriteAt(b, int64(offset))
	return wrap(h.name, err)
}

// Close ends the handle; an atomic write takes the target's place. The data
// is not forced to disk: that is the file system's business, as with cp.
func (h *WriteHandle) Close() error {
	err := h.f.Close()
	if h.dir < 0 {
		return wrap(h.name, err)
	}
	if err == nil {
		err = unix.Renameat(h.dir, h.temp, h.dir, h.base)
	}
	if err != nil {
		_ = unix.Unlinkat(h.dir, h.temp, 0)
	}
	_ = unix.Close(h.dir)
	return wrap(h.name, err)
}

// Abort ends the handle and forgets an atomic write.
func (h *WriteHandle) Abort() error {
	err := h.f.Close()
	if h.dir >= 0 {
		_ = unix.Unlinkat(h.dir, h.temp, 0)
		_ = unix.Close(h.dir)
	}
	return wrap(h.name, err)
}
