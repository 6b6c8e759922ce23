package remote

import (
	"slices"
	"strings"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/cmd/codex/cli/sandbox"
	"github.com/urfave/cli/v2"
)

func remoteRunCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "run", Usage: "run a command on the server", ArgsUsage: "-- COMMAND [ARGUMENT...]",
		Description: `Runs the command with the server's environment (without variables whose names
suggest a secret) and prints its output as it is written. Stdin is passed on up to
its end. Exits with the command's exit code, or 255 if the server could not be
reached or the connection was lost.

An interrupt (Ctrl-C) interrupts the remote command; a second one within two
seconds kills it.

With --sandbox the server confines the command. read-only: it may read
everything, write nothing and reach no network. workspace-write: it may write
also below --cwd (by default the server's directory), each --writable-root, /tmp
and $TMPDIR, but not in .git, .agents and .codex. Anything else is JSON: a
permission profile, or a complete sandbox object of the protocol, which is sent
unchanged. A server that cannot enforce it refuses to run the command. To be asked
when the sandbox denies something, use codex remote exec.

With --detach the command continues after this program has ended, and even after the
server has: it belongs to your user or token. Its handle is printed. codex remote ps,
logs, attach, wait, kill and forget work on such processes. The newest --retain-bytes of
its output stay on the server's disk; with --when-full wait the command waits for codex
remote logs --consume instead of losing the oldest.

A sandboxed command reaches no host. --allow-domain lets it reach some, and
--ask-network asks on the terminal about the others: y (once), s (for this
session) or n (never); anything else means no, once. --save adds the hosts that
you permit to an egress policy. --network lets it reach every host.

--timeout, --memory and the like limit the command and its descendants. If the server
cannot enforce one of the limits, a warning is printed on stderr; with --require-limits
the command does not run.

Examples:
   codex remote run -- uname -a
   codex remote run --cwd /src --env-var CGO_ENABLED=0 -- go test ./...
   tar c . | codex remote run --cwd /tmp -- tar x
   codex remote run --sandbox workspace-write --cwd /src -- make test
   codex remote run --sandbox read-only --allow-domain pypi.org:443 \
      -- curl -sI https://pypi.org/
   codex remote run --workspace-write --cwd /src --ask-network -- npm install
   codex remote run --timeout 10m --output-limit 100M -- make -j
   codex remote run --tty -- top
   codex remote run --detach --name build -- make -j8`,
		Flags: append([]cli.Flag{
			cmdutil.CommandLine,
			urlFlag(), caFlag(), clientCertFlag(), clientKeyFlag(), envOrVarFlag(), cwdFlag("run in `DIR` of the server; default: the server's own directory"), envVarFlag(), ttyFlag(), interactiveFlag(), forwardFlag(), verboseFlag(), quietFlag(),
			cmdutil.Duration(cli.GenericFlag{Name: "timeout", Usage: "kill the command after `DURATION`, such as 90s, and exit with 124", DefaultText: "none"}, 0, time.Millisecond),
			&cli.BoolFlag{Name: "no-stdin", Aliases: []string{"n"}, Usage: "pass no input on, and leave it to other programs"},
		}, slices.Concat(sandbox.Flags(""), askNetworkFlags(), cmdutil.RemoteLimitFlags(), detachFlags())...),
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return cmdutil.Usagef("run needs a command: codex remote run -- COMMAND [ARGUMENT...]")
			}
			if err := checkDetach(c); err != nil {
				return err
			}
			if c.Bool("no-stdin") {
				if c.Bool("tty") {
					return cmdutil.Usagef("--no-stdin and --tty exclude each other: a terminal is an input")
				}
				s.In = strings.NewReader("")
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
connection, even if the server does not answer any more, and ~? lists these keys.
While a lost connection is being recovered, Ctrl-C ends the program.

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

// envOrVarFlag returns --env for the older commands, in which it may also set variables.
func envOrVarFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "env", Usage: "the environment with that `ID`; or NAME=VALUE, as --env-var"}
}

// runRemote runs argv, or the server's shell if it is empty.
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
