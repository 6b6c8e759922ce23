package main

import (
	"fmt"
	"os"

	"codex.internal/cmd/codex-linux-sandbox/launcher"
	"codex.internal/cmd/codex/cli/server"
	"codex.internal/pkg/fileop/codexfs"
	"codex.internal/pkg/host/limiter"
	"codex.internal/pkg/host/process"
)

func fsHelper() int { return codexfs.Main(os.Stdin, os.Stdout, os.Stderr) }

func linuxSandbox(args []string) int { return launcher.Main(args, os.Stdout, os.Stderr) }

// serverRole runs the program as an auxiliary process of a server, if its first argument, role,
// selects one. Otherwise ok is false.
func serverRole(role string, args []string) (code int, ok bool) {
	switch role {
	case server.WatchdogArg:
		process.RunWatchdog(os.Stdin)
		return 0, true
	case server.KeeperArg:
		return server.Keeper(), true
	case limiter.Arg:
		fmt.Fprintln(os.Stderr, limiter.Run(args))
		return 1, true
	case "sandbox":
		if err := limiter.FreeTasks(); err != nil {
			return refuse("cannot make the sandbox: %v", err), true
		}
		return 0, false
	default:
		return 0, false
	}
}
