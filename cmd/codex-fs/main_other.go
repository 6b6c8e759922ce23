//go:build !linux

// Command codex-fs carries out one file system request in a sandbox: it reads a
// JSON request from stdin and writes a JSON answer to stdout.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "codex-fs runs on Linux only")
	os.Exit(1)
}
