// Package cli is the command line of codex.
//
// Exit codes: 0 success; 1 the command failed; 2 the command line was invalid.
// `codex remote run` and `shell` exit with the remote command's code, or with
// 255 when the server could not be reached or the connection broke. `codex
// remote exec` exits with the remote command's code, or 124 for a timeout, 125
// for other failures, 126 when the command was denied.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

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
	if len(args) > 0 {
		cmdutil.SetProgram(args[0])
	}
	s := cmdutil.NewStreams(stdin, stdout, stderr)
	loadDotenv(s.Err)
	app := newApp(s)
	if last := len(args) - 1; last > 0 && args[last] == completionWord {
		printCompletions(s.Out, app, args[1:last])
		return 0
	}
	err := run(context.Background(), app, args)
	code := report(s, err)
	if e, ok := errors.AsType[*cmdutil.ExitError](err); ok && e.Signal != 0 {
		cmdutil.Die(e.Signal)
	}
	return code
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
		fmt.Fprintf(s.Err, "error: %s\n%s", cmdutil.OwnCommands(err.Error()), cmdutil.AdviceOn(err))
		return cmdutil.ExitUsage
	default:
		cmdutil.Messagef(s.Err, "Error: %v\n%s%s", err, cmdutil.CausedBy(err), cmdutil.AdviceOn(err))
		return cmdutil.ExitCode(err)
	}
}

// loadDotenv sets the variables of the .env file in the home directory of codex. If there is no such directory, it
// does nothing: commands that need the directory report that.
func loadDotenv(stderr io.Writer) {
	dir, err := home.Find()
	if err != nil {
		return
	}
	if err := home.LoadDotenv(dir); err != nil {
		cmdutil.Messagef(stderr, "WARNING: proceeding without .env: %v\n", err)
	}
}

// newApp returns the program with all its commands, in the order of the help.
func newApp(s cmdutil.Streams) *cli.App {
	identity := account.Identity{Open: account.OpenBrowser}
	app := &cli.App{
		Name:  "codex",
		Usage: "run commands and do file work for a coding agent on another machine",
		Description: `codex exec-server is a server: it runs commands and file operations for an agent's
client. codex remote is a client for the command line: it runs commands on such a
server and copies files to and from it. codex sandbox runs a command in a sandbox on
this machine, and codex doctor reports which sandboxes this machine supports. codex
rendezvous connects clients with servers that are behind a firewall.

Example: start a server, and use it from a second terminal:

   codex exec-server --listen ws://127.0.0.1:8765
   codex remote run --url ws://127.0.0.1:8765 -- uname -a`,
		UsageText: "codex [global options] COMMAND [command options]",
		Version:   cmdutil.Version(),
		Reader:    s.In,
		Writer:    s.Out,
		ErrWriter: s.Err,
		// A value of --env or -c may have commas in it.
		DisableSliceFlagSeparator: true,
		UseShortOptionHandling:    true, // -la is -l -a
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              cmdutil.OnUsageError,
		CustomAppHelpTemplate:     appTemplate,
		Flags:                     append(cmdutil.RootFlags(), helpOption(nil)),
		Before:                    helpIfAsked,
		Commands: []*cli.Command{
			serverCommand(s), remote.Command(s), environments.Command(s), rendezvous.Command(s), audit.Command(s), sandbox.Command(s), doctor.Command(s),
			account.LoginCommand(s, identity), account.LogoutCommand(s, identity), completionCommand(), versionCommand(s), manCommand(), helpCommand(),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return cmdutil.UnknownCommand(c)
			}
			return cli.ShowAppHelp(c)
		},
	}
	setFlags(app.Flags)
	app.Setup()
	for _, c := range app.Commands {
		addCommon(c)
	}
	return app
}

// addCommon adds the common options and settings of all commands to a command and its subcommands.
func addCommon(c *cli.Command) {
	c.OnUsageError, c.CustomHelpTemplate, c.Before, c.Flags = cmdutil.OnUsageError, commandTemplate, helpIfAsked, append(c.Flags, helpOption(c.Flags))
	c.UsageText = usageText(c)
	// With the library's help command, codex remote rm help would not remove the file help.
	c.HideHelpCommand = true
	setFlags(c.Flags)
	if len(c.Subcommands) == 0 {
		return
	}
	c.Subcommands = append(c.Subcommands, helpCommand())
	for _, sub := range c.Subcommands {
		sub.HelpName = c.HelpName + " " + sub.Name
		addCommon(sub)
	}
	if c.Action == nil {
		c.Action = func(c *cli.Context) error {
			if c.Args().Present() {
				return cmdutil.UnknownCommand(c)
			}
			return cli.ShowSubcommandHelp(c)
		}
	}
}

// setFlags sets what the library would do otherwise with options.
func setFlags(flags []cli.Flag) {
	for _, f := range flags {
		switch f := f.(type) {
		case *cli.StringSliceFlag:
			f.KeepSpace = true // a value of --env-var may end with a space
		case *cli.BoolFlag:
			f.DisableDefaultText = !f.Value // an option that is off need not say so
		}
	}
}

// usageText returns the line that shows how a command is used.
func usageText(c *cli.Command) string {
	usage := c.HelpName + " [command options]"
	switch {
	case c.ArgsUsage != "" && len(c.Subcommands) > 0:
		usage += " " + c.ArgsUsage + " | COMMAND"
	case c.ArgsUsage != "":
		usage += " " + c.ArgsUsage
	case len(c.Subcommands) > 0 && c.Action == nil:
		usage += " COMMAND"
	case len(c.Subcommands) > 0:
		usage += " [COMMAND]"
	}
	return usage
}

// run carries out a command line, which begins with the name of the program.
func run(ctx context.Context, app *cli.App, args []string) error {
	args, err := cmdutil.Arrange(app, args)
	if err != nil {
		return err
	}
	if err := app.RunContext(ctx, args); !errors.Is(err, errHelpShown) {
		return err
	}
	return nil
}
