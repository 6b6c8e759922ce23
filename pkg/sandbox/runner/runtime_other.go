//go:build !linux

package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Runtime would start commands in sandboxes; there are none on this system.
type Runtime struct {
	home, programs string
}

// errHere says why there is no sandbox: on Windows in the words of the
// protocol.
func errHere() error {
	if runtime.GOOS == "windows" {
		return ErrWindows
	}
	return fmt.Errorf("%w: there is no sandbox for %s", ErrUnenforceable, runtime.GOOS)
}

// NewRuntime fails where there are no sandboxes. On Windows a runtime goes through
// the launch of a helper for files, and says what is missing.
func NewRuntime(opts Options) (*Runtime, error) {
	if runtime.GOOS != "windows" {
		return nil, errHere()
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return &Runtime{home: opts.CodexHome, programs: filepath.Dir(self)}, nil
}

// Close does nothing.
func (*Runtime) Close() {}

// NeedsLibraries reports false.
func (*Runtime) NeedsLibraries() bool { return false }

// Status says that there is no backend.
func (*Runtime) Status() Status { return Status{Reason: errHere().Error()} }

// Process fails.
func (*Runtime) Process(Intent, []string, *string, []string) (*Command, error) {
	return nil, errHere()
}

// FileHelper fails; see windowsHelper.
func (r *Runtime) FileHelper(in Intent) (*Command, error) {
	return nil, windowsHelper(in, r.home, r.programs)
}

// Standby returns nothing that could be started.
func (*Runtime) Standby() *Command { return &Command{} }

// PrepareKey returns nothing.
func (*Runtime) PrepareKey(Intent, string) string { return "" }

// MakesAhead returns false.
func (*Runtime) MakesAhead() bool { return false }

// Prepare fails.
func (*Runtime) Prepare(Intent, string) (*Command, error) { return nil, errHere() }

// Janitor returns nothing that could be started.
func (*Runtime) Janitor() *Command { return &Command{} }

// Command is never made here.
type Command struct {
	Argv  []string
	Arg0  string
	Env   []string
	Files []*os.File
	// Refusal and Egress are never set here.
	Refusal, Egress *os.File
}

// ReadRefusal returns nothing.
func ReadRefusal(*os.File, int) string { return "" }

// Unbegun is no refusal here.
const Unbegun = "unbegun"

// Close does nothing.
func (*Command) Close() {}
