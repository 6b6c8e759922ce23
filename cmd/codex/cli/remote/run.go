package remote

import (
	"slices"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/cmd/codex/cli/sandbox"
	"github.com/urfave/cli/v2"
)

func remoteRunCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "run", Usage: "run a command on the server", ArgsUsage: "-- COMMAND [ARGUMENT...]",
		Description: `Runs the command with the server's environment (all of it that holds no
secret by its name) and shows its output as it comes. Stdin is passed on, with
its end. Exits with the command's exit code, or 255 if the server could not be
reached or the connection broke.

An interrupt (Ctrl-C) interrupts the remote command; a second one within two
seconds kills it.

With --sandbox the server confines the command. read-only: it may read
everything, write nothing and reach no network. workspace-write: it may write
also below --cwd (by default the server's directory), each --writable-root, /tmp
and $TMPDIR, but not in .git, .agents and .codex. Anything else is JSON: a
permission profile, or a whole sandbox object of the protocol, which is sent as
it is. A server that cannot enforce it refuses to run the command. To be asked when the sandbox
denies something, use codex remote exec.

With --detach the command goes on after this one has ended, and after the server has: it
belongs to your user or token. Its handle is printed. codex remote ps, logs, attach, wait,
kill and forget are about such processes. The newest --retain-bytes of its output stay on
the server's disk; with --when-full wait the command waits for codex remote logs --consume
in place of losing the oldest.

A sandboxed command reaches no host. --allow-domain lets it reach some, and
--ask-network asks on the terminal about the others: y (once), s (for this
session) or n (never); anything else means no, once. --save adds what you let
it reach to an egress policy. --network lets it reach every host.

--timeout, --memory and the like limit the command with all that it starts. The server says how
it holds each limit; one that it cannot hold is told on stderr, and with
--require-limits nothing runs.

Examples:
   codex remote run -- uname -a
   codex remote run --cwd /src --env-var CGO_ENABLED=0 -- go test ./...
   tar c . | codex remote run --cwd /tmp -- tar x
   codex remote run --sandbox workspace-write --cwd /src -- make test
   codex remote run --sandbox read-only --allow-domain pypi.org:443 -- curl -sI https://pypi.org/
   codex remote run --sandbox workspace-write --cwd /src --ask-network -- npm install
   codex remote run --timeout 10m --cpu-time 1h --output-limit 100M -- make -j
   codex remote run --tty -- top
   codex remote run --detach --name build -- make -j8`,
		Flags: append([]cli.Flag{
			cmdutil.CommandLine,
			urlFlag(), caFlag(), clientCertFlag(), clientKeyFlag(), envOrVarFlag(), cwdFlag("run in `DIR` of the server; default: the server's own directory"), envVarFlag(), ttyFlag(), interactiveFlag(), forwardFlag(), verboseFlag(), quietFlag(),
			cmdutil.Duration(cli.GenericFlag{Name: "timeout", Usage: "kill the command after `DURATION`, such as 90s, and exit with 124", DefaultText: "none"}, 0, time.Millisecond),
		}, slices.Concat(sandbox.Flags(""), askNetworkFlags(), cmdutil.RemoteLimitFlags(), detachFlags())...),
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return cmdutil.Usagef("run needs a command: codex remote run -- COMMAND [ARGUMENT...]")
			}
			if err := checkDetach(c); err != nil {
				return err
			}
			if c.Bool("detach") {
				return runDetached(c, s, c.Args().Slice())
			}
			return runRemote(c, s, c.Args().Slice(), c.Bool("tty"))
		},
	}
}

func remoteShellCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "shell", Usage: "open your shell on the server",
		Description: `Runs the server's shell in a terminal. At the beginning of a line, ~. closes the
connection, also if the server does not answer any more, and ~? says so. While a lost
connection is made anew, Ctrl-C ends the program.

Example:
   codex remote shell --url ws://127.0.0.1:8765`,
		Flags: []cli.Flag{urlFlag(), caFlag(), clientCertFlag(), clientKeyFlag(), envOrVarFlag(), cwdFlag("start in `DIR` of the server"), envVarFlag(), forwardFlag(), verboseFlag(), quietFlag()},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return cmdutil.Usagef("shell takes no arguments, got %q; to run a command use codex remote run", c.Args().First())
			}
			if newScreen(s).f == nil {
				return cmdutil.Usagef("shell needs a terminal as its input; to run a script use codex remote run -- sh < FILE")
			}
			return runRemote(c, s, nil, true)
		},
	}
}

// envOrVarFlag is --env of the commands in which it always set variables.
func envOrVarFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "env", Usage: "the environment with that `ID`; or NAME=VALUE, as --env-var"}
}

// runRemote runs argv, or the server's shell without one.
func runRemote(c *cli.Context, s cmdutil.Streams, argv []string, tty bool) error {
	o, err := parseOptions(c, false)
	if err != nil {
		return err
	}
	o.tty = tty
	x, err := openRemote(c, s, o)
	if err != nil {
		return err
	}
	defer x.close()
	if argv == nil {
		argv = []string{x.shell.Path, "-l"}
	}
	return x.exit(x.do(x.ctx, job{argv: argv, asked: argv, cwd: x.cwd}))
}
