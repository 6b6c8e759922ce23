// Package cli is the command line of codex.
//
// Exit codes: 0 success; 1 the command failed; 2 it was called in a wrong
// way. `codex remote run` and `shell` exit with the remote command's code, or
// with 255 when the server could not be reached or the connection broke.
// `codex remote exec` exits with the remote command's code, or 124 for a
// timeout, 125 when something else failed, 126 when the command was denied.
package cli

import (
	"errors"
	"fmt"
	"io"

	"codex.internal/pkg/account/codexhome"
	"codex.internal/pkg/host/terminal"
	"codex.internal/pkg/sandbox/doctor"
	"github.com/urfave/cli/v2"
)

// Main runs the command line and returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 1 && args[1] == doctor.Arg {
		return doctor.Main(args[2:])
	}
	s := newStreams(stdin, stdout, stderr)
	loadDotenv(s.err)
	app := newApp(s)
	err := app.Run(args)
	var code *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code) && code.err == nil:
		return code.code
	case exitCode(err) == exitUsage:
		fmt.Fprintf(s.err, "error: %v\n%s", err, adviceOn(err))
		return exitUsage
	default:
		tellf(s.err, "Error: %s\n%s%s", terminal.Text(plain(err)), causedBy(err), adviceOn(err))
		return exitCode(err)
	}
}

// loadDotenv sets the variables of the home directory's .env. Without a home
// there is none; who needs the home says what is wrong with it.
func loadDotenv(stderr io.Writer) {
	home, err := codexhome.Find()
	if err != nil {
		return
	}
	if err := codexhome.LoadDotenv(home); err != nil {
		tellf(stderr, "WARNING: proceeding without .env: %v\n", err)
	}
}

func newApp(s streams) *cli.App {
	app := &cli.App{
		Name:  "codex",
		Usage: "run commands and do file work for a coding agent on another machine",
		Description: `codex exec-server waits for an agent's client and runs what it asks for.
codex remote is a client for the command line: it runs commands on such a
server and copies files to and from it. codex sandbox runs a command on this
machine, confined, and codex doctor tells what this machine can confine. codex
rendezvous is where agents find executors behind a firewall.

Example: start a server, and use it from a second terminal:

   codex exec-server --listen ws://127.0.0.1:8765
   codex remote run --url ws://127.0.0.1:8765 -- uname -a`,
		Version:              version(),
		Reader:               s.in,
		Writer:               s.out,
		ErrWriter:            s.err,
		HideHelpCommand:      false,
		EnableBashCompletion: true,
		Suggest:              true,
		// A value of --env or -c may have commas in it.
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              onUsageError,
		Flags:                     rootFlags(),
		Commands: []*cli.Command{
			execServerCommand(s),
			remoteCommand(s),
			environmentsCommand(s),
			rendezvousCommand(s),
			sandboxCommand(s),
			doctorCommand(s),
			loginCommand(s, identity{open: openBrowser}),
			logoutCommand(s, identity{open: openBrowser}),
			completionCommand(),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownCommand(c)
			}
			return cli.ShowAppHelp(c)
		},
	}
	addHelp(&app.Commands, &app.Flags)
	cli.VersionPrinter = func(c *cli.Context) { fmt.Fprintf(c.App.Writer, "codex %s\n", c.App.Version) }
	cli.HelpPrinter = printHelp
	return app
}
