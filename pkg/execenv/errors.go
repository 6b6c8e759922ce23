package execenv

import (
	"errors"
	"fmt"

	"codex.internal/pkg/execclient"
)

var (
	// ErrNoRuntime says that nobody told where this program is, which the
	// local environment starts.
	ErrNoRuntime error = &execclient.ProtocolError{Message: "local environment requires configured runtime paths"}
	// ErrClosed says that the environment was closed.
	ErrClosed = errors.New("the environment was closed")
	// ErrNoDefault says that no environment was chosen and none is the default.
	ErrNoDefault = errors.New("there is no default environment")
)

// UnknownError says that there is no environment with an id.
type UnknownError struct{ ID string }

func (e *UnknownError) Error() string { return fmt.Sprintf("there is no environment `%s`", e.ID) }

// FileError says that the file of environments breaks a rule. Its text is Codex
// CLI's, in which the path is not always told.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *FileError) Unwrap() error { return e.Err }

// ConnectError says that an environment could not be connected to.
type ConnectError struct{ Err error }

func (e *ConnectError) Error() string {
	return fmt.Sprintf("exec-server connection attempt failed: %v", e.Err)
}

// Unwrap returns the reason.
func (e *ConnectError) Unwrap() error { return e.Err }

// invalid is the error of a configuration that breaks a rule.
func invalid(format string, args ...any) error {
	return &execclient.ProtocolError{Message: fmt.Sprintf(format, args...)}
}
