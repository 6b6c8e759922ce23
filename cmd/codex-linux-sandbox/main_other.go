//go:build !linux

// Command codex-linux-sandbox confines itself and then executes a command.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "codex-linux-sandbox runs on Linux only")
	os.Exit(125)
}
