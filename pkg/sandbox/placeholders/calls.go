package placeholders

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// futimens sets the times of an open file, which x/sys does only by name.
func futimens(fd int, times *[2]unix.Timespec) error {
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(times)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// retry calls f until it is not interrupted by a signal.
func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
