package cli

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// flushTerminal forgets what was typed and not read yet.
func flushTerminal(f *os.File) error {
	if err := unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH); err != nil {
		return fmt.Errorf("flush the terminal: %w", err)
	}
	return nil
}
