package remote

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// flushTerminal discards keys that were typed and not read yet.
func flushTerminal(f *os.File) error {
	if err := unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH); err != nil {
		return fmt.Errorf("flush the terminal: %w", err)
	}
	return nil
}

// isMountPoint reports whether a file system or a part of one is mounted at a local path.
func isMountPoint(name string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, name, unix.AT_NO_AUTOMOUNT, 0, &st)
	return err == nil && st.Attributes_mask&st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// hideKeys turns off the echo of the terminal until show is called. show may be called more
// than once.
func hideKeys(f *os.File) (show func(), err error) {
	before, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("ask the terminal for its modes: %w", err)
	}
	hidden := *before
	hidden.Lflag &^= unix.ECHO | unix.ECHONL
	hidden.Oflag |= unix.OPOST | unix.ONLCR // begin lines at the left, whatever the previous mode was
	if err := unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, &hidden); err != nil {
		return nil, fmt.Errorf("set the modes of the terminal: %w", err)
	}
	return sync.OnceFunc(func() { _ = unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, before) }), nil
}
