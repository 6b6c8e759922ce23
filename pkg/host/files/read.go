package files

import (
	"errors"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// OpenRegular opens a regular file of at most MaxReadFile bytes for reading, and returns its
// current size, which is 0 for virtual files, as in /proc. It does not wait: for a pipe the error
// is ErrNotFile. The caller closes the file. Errors: ErrNotFile, ErrTooLarge, ErrSymlink,
// ErrProcess, *OSError.
func OpenRegular(name string, o Options) (*os.File, int64, error) {
	f, size, err := openRegular(name, o)
	if err != nil {
		return nil, 0, err
	}
	if size > MaxReadFile {
		_ = f.Close()
		return nil, 0, ErrTooLarge
	}
	return f, size, nil
}

func openRegular(name string, o Options) (*os.File, int64, error) {
	fd, err := openToRead(name, o)
	if err != nil {
		if isErrno(err, unix.ENXIO) { // a socket
			err = notFile(name)
		}
		return nil, 0, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return nil, 0, wrap(name, err)
	}
	if fileType(&st) != unix.S_IFREG {
		_ = unix.Close(fd)
		return nil, 0, notFile(name)
	}
	return newFile(fd, name), st.Size, nil
}

// newFile takes over the descriptor of a regular file. The descriptor is in blocking mode while
// package os examines it, because os would otherwise try to poll it, and regular files cannot be
// polled. Afterwards newFile makes it non-blocking: a read of /proc/kmsg fails with EAGAIN then. A
// blocking read would occupy its thread until the kernel logs a message.
func newFile(fd int, name string) *os.File {
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0) // it has no other flags
	f := os.NewFile(uintptr(fd), name)
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK)
	return f
}

// ReadHandle is a regular file that is open for reading. It reads the file that it opened, even
// after the file is renamed or removed. Its methods may be called concurrently.
type ReadHandle struct{ f *os.File }

// OpenRead opens a regular file of any size, without waiting.
func OpenRead(name string) (*ReadHandle, error) {
	f, _, err := openRegular(name, Options{})
	if err != nil {
		return nil, err
	}
	return &ReadHandle{f}, nil
}

// ReadAt fills b from the given offset in bytes. eof means that the file ended
// before b was full; it is false for a block that ends exactly at the end.
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

// Close closes the handle. A second call returns an error and does nothing.
func (h *ReadHandle) Close() error { return wrap(h.f.Name(), h.f.Close()) }
