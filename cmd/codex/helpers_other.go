//go:build !linux

package main

import (
	"fmt"
	"os"
)

func fsHelper() int {
	fmt.Fprintln(os.Stderr, "codex-fs runs on Linux only")
	return 1
}

func linuxSandbox([]string) int {
	fmt.Fprintln(os.Stderr, "codex-linux-sandbox runs on Linux only")
	const notStarted = 125
	return notStarted
}

// serverRole does nothing: without a server there are no auxiliary processes.
func serverRole(string, []string) (code int, ok bool) { return 0, false }
