//go:build linux

// Command codex-fs carries out one file system request in a sandbox: it reads a
// JSON request from stdin and writes a JSON answer to stdout.
package main

import (
	"os"

	"codex.internal/pkg/fileop/codexfs"
)

func main() { os.Exit(codexfs.Main(os.Stdin, os.Stdout, os.Stderr)) }
