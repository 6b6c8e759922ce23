package execenv

import (
	"errors"
	"fmt"

	"codex.internal/pkg/execclient"
)

var (
	// ErrNoRuntime means that the path of this program, which the local environment starts,
	// was not configured.
	ErrNoRuntime error = &execclient.ProtocolError{Message: "local environment requires configured runtime paths"}
	// ErrClosed means that the environment was closed.
	ErrClosed = errors.New("the environment was closed")
	// ErrNoDefault means that no environment was chosen and none is the default.
	ErrNoDefault = errors.New("there is no default environment")
)

// UnknownError means that there is no environment with an id.
type UnknownError struct{ ID string }

func (e *UnknownError) Error() string { return fmt.Sprintf("there is no environment `%s`", e.ID) }

// FileError means that the file of environments is invalid. Its text equals Codex CLI's, which
// does not always contain the path.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *FileError) Unwrap() error { return e.Err }

// ConnectError means that connecting to an environment failed.
type ConnectError struct{ Err error }

func (e *ConnectError) Error() string {
	return fmt.Sprintf("exec-server connection attempt failed: %v", e.Err)
}

// Unwrap returns the reason.
func (e *ConnectError) Unwrap() error { return e.Err }

// invalid returns the error for an invalid configuration.
func invalid(format string, args ...any) error {
	return &execclient.ProtocolError{Message: fmt.Sprintf(format, args...)}
}
