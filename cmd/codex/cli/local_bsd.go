//go:build unix && !linux

package cli

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// flushTerminal forgets what was typed and not read yet.
func flushTerminal(f *os.File) error {
	const read = 1 // FREAD
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCFLUSH, read); err != nil {
		return fmt.Errorf("flush the terminal: %w", err)
	}
	return nil
}
