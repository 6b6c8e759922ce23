package codexfs

import (
	"io"

	"golang.org/x/sys/unix"
)

// descriptor reads and writes a file descriptor without Go's poller.
type descriptor uintptr

func (d descriptor) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		n, err := unix.Read(int(d), b)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN: // another process has made the descriptor non-blocking
			if err := d.wait(unix.POLLIN); err != nil {
				return 0, err
			}
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (d descriptor) Write(b []byte) (int, error) {
	written := 0
	for written < len(b) {
		n, err := unix.Write(int(d), b[written:])
		switch err {
		case nil:
			written += n
		case unix.EINTR:
		case unix.EAGAIN:
			if err := d.wait(unix.POLLOUT); err != nil {
				return written, err
			}
		default:
			return written, err
		}
	}
	return written, nil
}

func (d descriptor) wait(events int16) error {
	_, err := unix.Poll([]unix.PollFd{{Fd: int32(d), Events: events}}, -1)
	if err == unix.EINTR {
		return nil
	}
	return err
}
