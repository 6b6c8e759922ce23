package main

import (
	"os"

	"codex.internal/cmd/codex-linux-sandbox/launcher"
	"codex.internal/pkg/fileop/codexfs"
)

func fsHelper() int { return codexfs.Main(os.Stdin, os.Stdout, os.Stderr) }

func linuxSandbox(args []string) int { return launcher.Main(args, os.Stdout, os.Stderr) }
