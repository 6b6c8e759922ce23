//go:build !linux

// Command codex-fs does one file system request of a sandboxed client: one
// JSON request on stdin, one JSON answer on stdout.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "codex-fs runs on Linux only")
	os.Exit(1)
}
