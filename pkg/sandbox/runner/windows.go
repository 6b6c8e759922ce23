package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"codex.internal/pkg/host/safeopen"
	"codex.internal/pkg/sandbox/winsandbox"
)

// ErrNoSetup means that the set-up helper of the Windows sandbox is missing, or
// that this release cannot run it.
var ErrNoSetup = errors.New("the Windows sandbox needs its set-up helper")

const (
	// windowsSetup is the set-up helper, beside this program.
	windowsSetup = "codex-windows-sandbox-setup.exe"
	// maxMarker bounds the marker file: it has two names and some ports.
	maxMarker = 64 << 10
)

// windowsMarker is the marker file below the home directory.
var windowsMarker = filepath.Join(".sandbox", "setup_marker.json")

// PrepareWindows goes through the launch of a sandboxed command on a Windows host
// (docs/spec/sandbox.md §9) up to its first step: it reads the marker below
// l.CodexHome, plans the steps, and looks for the set-up helper in the directory of
// this program, programs. It starts nothing. It always returns an ErrNoSetup with the
// reason why the step is needed: no release has a set-up helper yet, and a command
// must not run without the earlier steps.
func PrepareWindows(l winsandbox.Launch, programs string) error {
	// Only the helper could know. Without users the first step is an elevated one.
	const usersReady = false
	plan := winsandbox.PlanLaunch(l, readMarker(l.CodexHome), usersReady)
	helper := filepath.Join(programs, windowsSetup)
	_, err := os.Stat(helper)
	if err == nil {
		err = fmt.Errorf("%s: this release cannot run it", helper)
	}
	return fmt.Errorf("%w for an elevated set-up (%s): %w", ErrNoSetup, plan.Reason, err)
}

// readMarker returns nil for a marker that is missing, broken or not a regular file:
// the set-up is then repeated.
func readMarker(home string) *winsandbox.Marker {
	text, err := safeopen.ReadFile(filepath.Join(home, windowsMarker), maxMarker)
	if err != nil {
		return nil
	}
	marker, err := winsandbox.DecodeMarker(text)
	if err != nil {
		return nil
	}
	return marker
}
