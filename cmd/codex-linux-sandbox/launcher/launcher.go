// Package launcher is the sandbox launcher: a program that confines itself
// and then executes a command.
package launcher

import "io"

// ExitFailed is the exit code when the command was not started because it
// could not be confined.
const ExitFailed = 1

// Main runs the launcher with its arguments and returns its exit code if
// there is no command to become. This version cannot confine anything, so it
// starts nothing.
func Main(_ []string, stderr io.Writer) int {
	_, _ = io.WriteString(stderr, "codex-linux-sandbox: this version of codex has no sandbox; the command was not started\n")
	return ExitFailed
}
