//go:build linux

// Command codex-linux-sandbox confines itself and then executes a command.
package main

import (
	"os"

	"codex.internal/cmd/codex-linux-sandbox/launcher"
)

func main() { os.Exit(launcher.Main(os.Args[1:], os.Stdout, os.Stderr)) }
