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

// ShortageError means that a start failed because this program or the machine lacks a resource. The
// next start may succeed.
type ShortageError struct {
	Lacks string
	Err   error
}

func (e *ShortageError) Error() string { return e.Lacks + ": " + e.Err.Error() }

// Unwrap returns the system's error.
func (e *ShortageError) Unwrap() error { return e.Err }

// shortages maps an errno to the name of the missing resource.
var shortages = map[syscall.Errno]string{
	syscall.EMFILE: "this server has too many open files; end some processes, or raise its limit (ulimit -n, LimitNOFILE= of systemd)",
	syscall.ENFILE: "this machine has too many open files",
	syscall.EAGAIN: "too many processes exist; end some, or raise the limit of the server's user or cgroup (ulimit -u, TasksMax= of systemd)",
	syscall.ENOMEM: "this machine or the server's cgroup is out of memory",
}

// explainShortage returns a ShortageError if an error of the system means a shortage.
func explainShortage(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok && shortages[errno] != "" {
		return &ShortageError{shortages[errno], err}
	}
	return err
}
