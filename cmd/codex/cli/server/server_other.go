//go:build !linux

package server

import (
	"errors"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// errNoServer says what there is in place of a server.
var errNoServer = errors.New("codex exec-server runs on Linux and macOS only; on this system its client works, see codex remote --help")

// Command refuses: a server that cannot keep hold of the processes
// that it starts would promise what it does not do.
func Command(cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name:            "exec-server",
		Usage:           "wait for clients and run what they ask for (Linux and macOS only)",
		SkipFlagParsing: true,
		Action:          func(*cli.Context) error { return errNoServer },
	}
}
