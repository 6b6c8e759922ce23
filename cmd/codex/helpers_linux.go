package main

import (
	"os"

	"codex.internal/cmd/codex-fs/fshelper"
	"codex.internal/cmd/codex-linux-sandbox/launcher"
)

func fsHelper() int { return fshelper.Main(os.Stdin, os.Stdout, os.Stderr) }

func linuxSandbox(args []string) int { return launcher.Main(args, os.Stdout, os.Stderr) }
