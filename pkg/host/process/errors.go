//go:build linux || darwin

package process

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrNUL is the error for an argument, a variable or a directory with a NUL byte.
var ErrNUL = errors.New("nul byte found in provided data")

// ErrNoProgram is the error for an argument list that is empty or begins with
// an empty argument.
var ErrNoProgram = errors.New("missing program: the first argument is empty")

// SpawnError is the error of the system for a process that could not be started.
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
