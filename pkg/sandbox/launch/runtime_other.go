//go:build !linux

package launch

import (
	"fmt"
	"os"
	"runtime"
)

// Runtime would start commands in sandboxes; there are none on this system.
type Runtime struct{}

// errHere says why there is no sandbox: on Windows in the words of the
// protocol.
func errHere() error {
	if runtime.GOOS == "windows" {
		return ErrWindows
	}
	return fmt.Errorf("%w: there is no sandbox for %s", ErrUnenforceable, runtime.GOOS)
}

// NewRuntime fails: there are no sandboxes on this system.
func NewRuntime(Options) (*Runtime, error) { return nil, errHere() }

// Close does nothing.
func (*Runtime) Close() {}

// Status says that there is no backend.
func (*Runtime) Status() Status { return Status{Reason: errHere().Error()} }

// Process fails.
func (*Runtime) Process(Intent, []string, *string, []string) (*Command, error) {
	return nil, errHere()
}

// FileHelper fails.
func (*Runtime) FileHelper(Intent) (*Command, error) { return nil, errHere() }

// Standby returns nothing that could be started.
func (*Runtime) Standby() *Command { return &Command{} }

// Command is never made here.
type Command struct {
	Argv  []string
	Arg0  string
	Env   []string
	Files []*os.File
	// Refusal is never set here.
	Refusal *os.File
}

// ReadRefusal returns nothing.
func ReadRefusal(*os.File) string { return "" }

// Close does nothing.
func (*Command) Close() {}
