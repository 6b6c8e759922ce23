// Package cli is the command line of codex.
//
// Exit codes: 0 success; 1 the command failed; 2 it was called in a wrong
// way. `codex remote run` and `shell` exit with the remote command's code, or
// with 255 when the server could not be reached or the connection broke.
// `codex remote exec` exits with the remote command's code, or 124 for a
// timeout, 125 when something else failed, 126 when the command was denied.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"codex.internal/cmd/codex/cli/account"
	"codex.internal/cmd/codex/cli/audit"
	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/cmd/codex/cli/doctor"
	"codex.internal/cmd/codex/cli/environments"
	"codex.internal/cmd/codex/cli/remote"
	"codex.internal/cmd/codex/cli/rendezvous"
	"codex.internal/cmd/codex/cli/sandbox"
	"codex.internal/pkg/account/home"
	checks "codex.internal/pkg/sandbox/doctor"
	"github.com/urfave/cli/v2"
)

// Main runs the command line and returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 1 && args[1] == checks.Arg {
		return checks.Main(args[2:])
	}
	s := cmdutil.NewStreams(stdin, stdout, stderr)
	loadDotenv(s.Err)
	app := newAppFor(s, args[min(1, len(args)):])
	if last := len(args) - 1; last > 0 && args[last] == completionWord {
		printCompletions(s.Out, app, args[1:last])
		return 0
	}
	err := run(context.Background(), app, cmdutil.Permute(app, args, takesFiles))
	code := report(s, err)
	if e, ok := errors.AsType[*cmdutil.ExitError](err); ok && e.Signal != 0 {
		cmdutil.Die(e.Signal)
	}
	return code
}

// takesFiles reports whether the operands of a command are files, ids or handles, and not
// those of a program: then options may stand behind them.
func takesFiles(path []string) bool {
	if len(path) == 2 && path[0] == "environments" {
		return path[1] == "add" || path[1] == "check"
	}
	return len(path) == 2 && path[0] == "remote" && slices.Contains([]string{
		"ls", "cat", "cp", "sync", "mv", "rm", "mkdir", "ln", "edit", "info", "watch", "forward", "ps", "logs", "attach", "wait", "kill", "forget",
	}, path[1])
}

// report prints an error and returns the exit code for it.
func report(s cmdutil.Streams, err error) int {
	var code *cmdutil.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code) && code.Err == nil:
		return code.Code
	case cmdutil.ExitCode(err) == cmdutil.ExitUsage:
		fmt.Fprintf(s.Err, "error: %v\n%s", err, cmdutil.AdviceOn(err))
		return cmdutil.ExitUsage
	default:
		cmdutil.Messagef(s.Err, "Error: %v\n%s%s", err, cmdutil.CausedBy(err), cmdutil.AdviceOn(err))
		return cmdutil.ExitCode(err)
	}
}

// loadDotenv sets the variables of the home directory's .env. Without a home
// there is none; who needs the home says what is wrong with it.
func loadDotenv(stderr io.Writer) {
	dir, err := home.Find()
	if err != nil {
		return
	}
	if err := home.LoadDotenv(dir); err != nil {
		cmdutil.Messagef(stderr, "WARNING: proceeding without .env: %v\n", err)
	}
}

// family makes a command, with those below it.
type family struct {
	name   string
	make   func(s cmdutil.Streams) *cli.Command
	others bool // it looks at the other commands
}

// families are the commands, in the order of the help.
func families() []family {
	who := account.Identity{Open: account.OpenBrowser}
	return []family{
		{name: "exec-server", make: serverCommand},
		{name: "remote", make: remote.Command},
		{name: "environments", make: environments.Command},
		{name: "rendezvous", make: rendezvous.Command},
		{name: "audit", make: audit.Command},
		{name: "sandbox", make: sandbox.Command},
		{name: "doctor", make: doctor.Command},
		{name: "login", make: func(s cmdutil.Streams) *cli.Command { return account.LoginCommand(s, who) }},
		{name: "logout", make: func(s cmdutil.Streams) *cli.Command { return account.LogoutCommand(s, who) }},
		{name: "completion", make: func(cmdutil.Streams) *cli.Command { return completionCommand() }},
		{name: "version", make: versionCommand},
		{name: "man", make: func(cmdutil.Streams) *cli.Command { return manCommand() }, others: true},
	}
}

// newAppFor returns the program for a command line, without the program's name. If its first
// word is a command's name, the others are not made: they take a twentieth of a server's start.
func newAppFor(s cmdutil.Streams, args []string) *cli.App {
	if len(args) > 0 && args[len(args)-1] != completionWord {
		for _, f := range families() {
			if f.name == args[0] && !f.others {
				return appWith(s, []*cli.Command{f.make(s)})
			}
		}
	}
	return newApp(s)
}

// newApp returns the program with all commands.
func newApp(s cmdutil.Streams) *cli.App {
	var commands []*cli.Command
	for _, f := range families() {
		commands = append(commands, f.make(s))
	}
	return appWith(s, commands)
}

func appWith(s cmdutil.Streams, commands []*cli.Command) *cli.App {
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
		Version:         cmdutil.Version(),
		Reader:          s.In,
		Writer:          s.Out,
		ErrWriter:       s.Err,
		HideHelpCommand: false,
		Suggest:         true,
		// A value of --env or -c may have commas in it.
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              cmdutil.OnUsageError,
		Flags:                     cmdutil.RootFlags(),
		Commands:                  commands,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return cmdutil.UnknownCommand(c)
			}
			return cmdutil.ErrHelp
		},
	}
	prepare(app)
	return app
}
