//go:build unix && !linux

package remote

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// flushTerminal discards keys that were typed and not read yet.
func flushTerminal(f *os.File) error {
	const read = 1 // FREAD
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCFLUSH, read); err != nil {
		return fmt.Errorf("flush the terminal: %w", err)
	}
	return nil
}

// isMountPoint reports whether a file system is mounted at a local path.
func isMountPoint(name string) bool {
	var st, parent unix.Stat_t
	return unix.Stat(name, &st) == nil && unix.Stat(name+"/..", &parent) == nil && st.Dev != parent.Dev
}

// hideKeys turns off the echo of the terminal until show is called. show may be called more
// than once.
func hideKeys(f *os.File) (show func(), err error) {
	before, err := unix.IoctlGetTermios(int(f.Fd()), unix.TIOCGETA)
	if err != nil {
		return nil, fmt.Errorf("ask the terminal for its modes: %w", err)
	}
	hidden := *before
	hidden.Lflag &^= unix.ECHO | unix.ECHONL
	hidden.Oflag |= unix.OPOST | unix.ONLCR // begin lines at the left, whatever the previous mode was
	if err := unix.IoctlSetTermios(int(f.Fd()), unix.TIOCSETA, &hidden); err != nil {
		return nil, fmt.Errorf("set the modes of the terminal: %w", err)
	}
	return sync.OnceFunc(func() { _ = unix.IoctlSetTermios(int(f.Fd()), unix.TIOCSETA, before) }), nil
}
