//go:build !linux

package doctor

import (
	"context"
	"fmt"
	"os"
	"runtime"
)

// Examine returns a report without checks.
func Examine(context.Context) *Report {
	return &Report{
		Schema: Schema, System: runtime.GOOS, Arch: runtime.GOARCH, UID: os.Getuid(),
		Auto:     Choice{Reason: "the sandbox runs on Linux only"},
		Backends: []Backend{}, Checks: []Check{},
		Notes: []string{fmt.Sprintf("The sandbox runs on Linux only; on %s nothing can be confined. "+
			"Use the sandbox of a server on Linux: codex remote run --sandbox.", runtime.GOOS)},
	}
}

// Main returns an error: the doctor starts no children on this system.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "the probes of codex doctor run on Linux only")
	return 1
}
