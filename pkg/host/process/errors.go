//go:build linux || darwin

package process

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrNUL says that an argument or a variable has a NUL byte in it.
var ErrNUL = errors.New("nul byte found in provided data")

// ErrNoProgram says that the first argument is empty.
var ErrNoProgram = errors.New("missing program: the first argument is empty")

// SpawnError says that a process could not be started, and what was at fault.
type SpawnError struct {
	What  string // "program" or "working directory"
	Path  string
	Errno syscall.Errno
}

func (e *SpawnError) Error() string {
	text := e.Errno.Error()
	return fmt.Sprintf("%c%s (os error %d): %s %s", text[0]&^0x20, text[1:], int(e.Errno), e.What, e.Path)
}

// Unwrap returns the system's error.
func (e *SpawnError) Unwrap() error { return e.Errno }
