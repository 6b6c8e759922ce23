// Package fshelper is the file system helper: a program that is started,
// already confined, for one file system request of a sandboxed client.
package fshelper

import (
	"io"
)

// Exit codes of Main.
const (
	ExitFailed = 1
)

// Main runs the helper with its streams and returns its exit code. This
// version has no sandbox to be started in, so it refuses: a helper that
// worked unconfined would be taken for one that is confined.
func Main(_ io.Reader, _, stderr io.Writer) int {
	_, _ = io.WriteString(stderr, "fs sandbox helper failed: this version of codex has no sandbox; file system requests run in the server\n")
	return ExitFailed
}
