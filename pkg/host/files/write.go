package files

import (
	"time"

	"golang.org/x/sys/unix"
)

// replaceFlags open a file to replace its contents, without waiting.
const replaceFlags = unix.O_WRONLY | unix.O_CREAT | unix.O_TRUNC | unix.O_NONBLOCK | unix.O_NOCTTY

// WriteFile creates or truncates a file and writes data to it. A new file gets mode 0666, reduced
// by the umask. An existing file keeps its mode, owner and hard links. A symbolic link is followed.
// If the write fails, the file contains a part of data.
//
// Devices and pipes are written as by a shell's redirection, but without waiting. The error is
// ENXIO for a pipe without a reader, and ErrStalled if the reader takes no data for WriteStall.
// With Confined, WriteFile does not write to devices and pipes at all.
func WriteFile(name string, data []byte, o Options) error {
	fd, err := openTarget(unix.AT_FDCWD, name, name, replaceFlags, 0o666, o)
	if err != nil {
		return wrap(name, err)
	}
	err = writeAll(fd, data)
	if e := unix.Close(fd); err == nil {
		err = e
	}
	return wrap(name, err)
}

// writeAll writes to a descriptor that does not block.
func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		switch err {
		case nil:
			data = data[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			if err := waitWritable(fd); err != nil {
				return err
			}
		default:
			return err
		}
	}
	return nil
}

// waitWritable waits until fd can be written to, at most writeStall.
func waitWritable(fd int) error {
	deadline := time.Now().Add(writeStall)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return ErrStalled
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(left.Milliseconds())+1)
		if err != nil && err != unix.EINTR {
			return err
		}
		if n > 0 {
			return nil // writable, or an error that the next write returns
		}
	}
}

// writeStall is WriteStall. Tests set it to a shorter time.
var writeStall = WriteStall
