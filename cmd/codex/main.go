// Command codex is the exec-server, its client and, by the name it is called
// by, its helpers.
package main

import (
	"os"
	"path/filepath"
	"strings"

	"codex.internal/cmd/codex/cli"
)

func main() { os.Exit(run(os.Args)) }

// run decides by the base name of argv[0] what the program is.
func run(args []string) int {
	name := ""
	if len(args) > 0 {
		name = filepath.Base(args[0])
	}
	switch {
	case name == "codex-fs", len(args) > 1 && args[1] == "--codex-run-as-fs-helper":
		return fsHelper()
	case strings.TrimPrefix(name, ".") == "codex-linux-sandbox":
		return linuxSandbox(args[1:])
	case len(args) > 1 && args[1] == cli.WatchdogArg:
		return watchdog()
	default:
		return cli.Main(args, os.Stdin, os.Stdout, os.Stderr)
	}
}
