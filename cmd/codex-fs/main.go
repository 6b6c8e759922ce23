//go:build linux

// Command codex-fs does one file system request of a sandboxed client: one
// JSON request on stdin, one JSON answer on stdout.
package main

import (
	"os"

	"codex.internal/cmd/codex-fs/fshelper"
)

func main() { os.Exit(fshelper.Main(os.Stdin, os.Stdout, os.Stderr)) }
