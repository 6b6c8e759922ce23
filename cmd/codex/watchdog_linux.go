package main

import (
	"fmt"
	"os"

	"codex.internal/pkg/host/process"
)

func watchdog() int {
	process.RunWatchdog(os.Stdin)
	return 0
}

// limiter executes a command with lower resource limits; it returns only if it cannot.
func limiter(args []string) int {
	fmt.Fprintln(os.Stderr, process.RunLimiter(args))
	return 1
}
