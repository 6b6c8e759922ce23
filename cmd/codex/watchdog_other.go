//go:build !linux

package main

import (
	"fmt"
	"os"
)

// watchdog refuses: there is no server that could ask for it.
func watchdog() int {
	fmt.Fprintln(os.Stderr, "the watchdog of codex exec-server runs on Linux and macOS only")
	return 1
}

// limiter refuses as well.
func limiter([]string) int { return watchdog() }
