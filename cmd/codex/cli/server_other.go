//go:build !linux

package cli

import (
	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// serverCommand returns a command that fails: the server needs Linux to end the processes
// that it starts and to confine them.
func serverCommand(cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name:            "exec-server",
		Usage:           "run commands and file operations for clients (Linux only)",
		SkipFlagParsing: true,
		Action: func(*cli.Context) error {
			return cmdutil.LinuxOnly("codex exec-server", "run the server on a Linux machine, and use it from here: codex remote --help")
		},
	}
}
