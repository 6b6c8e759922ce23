//go:build linux || darwin

package main

import (
	"os"

	"codex.internal/pkg/host/process"
)

func watchdog() int {
	process.RunWatchdog(os.Stdin)
	return 0
}
