//go:build !linux

package sandbox

import "runtime"

// Runtime starts commands in sandboxes; there are none on this system.
type Runtime struct{}

// NewRuntime fails: there are no sandboxes on this system.
func NewRuntime(Options) (*Runtime, error) { return nil, ErrUnsupported }

// ErrUnsupported says that there are no sandboxes on this system.
var ErrUnsupported = unsupported{}

type unsupported struct{}

func (unsupported) Error() string {
	if runtime.GOOS == "windows" {
		return "sandboxed remote process launch is not supported on Windows"
	}
	return ErrUnenforceable.Error()
}

func (unsupported) Unwrap() error { return ErrUnenforceable }
