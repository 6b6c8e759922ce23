// Package sandbox has the command codex sandbox, and the sandboxes that options of
// the command line ask for.
package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/sandbox/egress"
	"codex.internal/pkg/sandbox/launch"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/wire/pathuri"
	"github.com/urfave/cli/v2"
)

const (
	// maxProfile bounds a profile, as the launcher does.
	maxProfile = 16 << 20
	// notStarted is the launcher's exit code for what keeps it from working.
	notStarted = 125
	// onAnExecutor is the advice where this machine has no sandbox.
	onAnExecutor = "use the sandbox of a server on Linux: codex remote run --sandbox"
)

func Command(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "sandbox", Usage: "run a command on this machine in a sandbox (Linux only)", ArgsUsage: "-- COMMAND [ARGUMENT...]", OnUsageError: cmdutil.OnUsageError,
		Description: `Runs the command where it may read everything, write nothing and reach no
network: that is --read-only, the default. --workspace-write lets it write also
below the current directory (or --cwd), /tmp and $TMPDIR, but not in .git,
.agents and .codex. --profile says everything itself. --allow-domain lets the
command reach some hosts, on one port or on all, and no others.

The command keeps this terminal, its input and output, and gets the signals.
Exits with the command's exit code, or 128 and the number of the signal that
ended it; 125 the sandbox could not be made (codex doctor tells why), 126 the
command may not be executed, 127 there is no such command.

Examples:
   codex sandbox -- ls -l ~
   codex sandbox --workspace-write -- make test
   codex sandbox --workspace-write --writable-root ~/.cache --network -- go build ./...
   codex sandbox --workspace-write --allow-domain pypi.org:443 -- pip download requests
   codex sandbox --workspace-write --explain
   codex sandbox --workspace-write --explain --target windows`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "read-only", Usage: "read everything, write nothing (default)"},
			&cli.BoolFlag{Name: "workspace-write", Usage: "write below the current directory, /tmp and $TMPDIR"},
			&cli.StringFlag{Name: "profile", Usage: "what `FILE` says, a permission profile as JSON"},
			&cli.StringSliceFlag{Name: "writable-root", Usage: "write also below `DIR`; may be repeated"},
			&cli.BoolFlag{Name: "network", Usage: "leave the network on"},
			&cli.StringSliceFlag{Name: "allow-domain",
				Usage: "let the command reach hosts that match `PATTERN`, such as *.example.com or example.com:443, through a proxy; may be repeated"},
			// People who know it from codex remote run are told what to do.
			&cli.BoolFlag{Name: "ask-network", Hidden: true, Usage: "is refused: the command could answer the questions itself"},
			&cli.StringFlag{Name: "backend", Value: launch.Backends[0], Usage: "what confines it: " + strings.Join(launch.Backends, ", ") + " (`NAME`)"},
			&cli.BoolFlag{Name: "stricter", Usage: "let Landlock enforce more than was asked for, where it cannot be exact"},
			&cli.BoolFlag{Name: "no-local-sockets", Usage: "while the network is off, leave no sockets of its own but pairs, as in Codex CLI"},
			&cli.BoolFlag{Name: "explain", Usage: "print what would be enforced, and run nothing"},
			&cli.StringFlag{Name: "target", Value: targetLinux, Usage: "explain for `SYSTEM`, linux or windows; nothing runs on windows"},
			&cli.StringFlag{Name: "cwd", Usage: "start in `DIR`, which is then the workspace"},
		},
		Action: func(c *cli.Context) error {
			if err := checkTarget(c); err != nil {
				return err
			}
			switch {
			case c.String("target") == targetWindows:
				return explainWindows(c, s)
			case runtime.GOOS == targetWindows && !c.Bool("explain"):
				return runWindows(c, s)
			}
			l, err := launchOf(c, s)
			if err != nil {
				return err
			}
			return l.exec()
		},
	}
}

// checkTarget refuses a target that nothing can be said about, and the target
// windows without --explain.
func checkTarget(c *cli.Context) error {
	switch target := c.String("target"); {
	case target != targetLinux && target != targetWindows:
		return cmdutil.Usagef("--target %q: there are %s and %s", target, targetLinux, targetWindows)
	case target == targetWindows && !c.Bool("explain"):
		return cmdutil.Usagef("--target windows needs --explain: commands are confined on Linux only")
	case target == targetWindows && c.IsSet("allow-domain"):
		return cmdutil.Usagef("--allow-domain does not go with --target windows: it is for Linux")
	case target == targetWindows && (c.IsSet("backend") || c.Bool("stricter") || c.Bool("no-local-sockets")):
		return cmdutil.Usagef("--backend, --stricter and --no-local-sockets do not go with --target windows: they are for Linux")
	default:
		return checkSandbox(c)
	}
}

// localLaunch is what the launcher is told.
type localLaunch struct {
	args    []string
	profile []byte // nil: a short form is among the arguments
	command []string
	// endpoints are the hosts that the command may reach through a network proxy.
	endpoints *egress.Endpoints
}

// launchOf makes the launcher's arguments of the options.
func launchOf(c *cli.Context, s cmdutil.Streams) (*localLaunch, error) {
	cwd := c.String("cwd")
	if cwd == "" {
		cwd = "."
	}
	if st, err := os.Stat(cwd); err != nil {
		return nil, fmt.Errorf("--cwd: %w", err)
	} else if !st.IsDir() {
		return nil, fmt.Errorf("--cwd: %s is not a directory", cwd)
	}
	endpoints, err := egress.ParseEndpoints(c.StringSlice("allow-domain"))
	if err != nil {
		return nil, cmdutil.Usagef("--allow-domain: %v", err)
	}
	l := &localLaunch{endpoints: endpoints, command: c.Args().Slice(), args: []string{"--sandbox-policy-cwd", cwd, "--backend", c.String("backend")}}
	for _, flag := range []string{"stricter", "no-local-sockets", "explain"} {
		if c.Bool(flag) {
			l.args = append(l.args, "--"+flag)
		}
	}
	if c.IsSet("profile") {
		text, err := readProfile(c.String("profile"), s.In)
		if err != nil {
			return nil, err
		}
		p, err := nativeProfile(c.String("profile"), text)
		if err != nil {
			return nil, err
		}
		l.profile = p.AppendJSON(nil)
		return l, checkWorkspace(c, writesWorkspace(p))
	}
	if err := checkWorkspace(c, c.Bool("workspace-write")); err != nil {
		return nil, err
	}
	if c.Bool("workspace-write") {
		l.args = append(l.args, "--workspace-write")
	} else {
		l.args = append(l.args, "--read-only")
	}
	for _, root := range c.StringSlice("writable-root") {
		if _, err := os.Stat(root); err != nil {
			return nil, fmt.Errorf("--writable-root: %w; what is to be written below must exist", err)
		}
		l.args = append(l.args, "--writable-root", root)
	}
	if c.Bool("network") {
		l.args = append(l.args, "--network")
	}
	return l, nil
}

// checkWorkspace refuses to take the root directory for the workspace because the
// command happens to be run there, as in a service.
func checkWorkspace(c *cli.Context, writes bool) error {
	if !writes || c.String("cwd") != "" {
		return nil
	}
	here, err := os.Stat(".")
	if err != nil {
		return fmt.Errorf("--cwd: %w", err)
	}
	if root, err := os.Stat("/"); err == nil && os.SameFile(here, root) {
		return cmdutil.Usagef("the current directory is /, which would be the workspace, so that everything could be written; " +
			"give --cwd DIR, or --cwd / if that is what you want")
	}
	return nil
}

// checkSandbox refuses options that do not go together.
func checkSandbox(c *cli.Context) error {
	kinds := 0
	for _, set := range []bool{c.Bool("read-only"), c.Bool("workspace-write"), c.IsSet("profile")} {
		if set {
			kinds++
		}
	}
	switch {
	case c.Bool("ask-network"):
		return cmdutil.Usagef("--ask-network does not go with codex sandbox: the command has this terminal, and could answer in your place; " +
			"list the hosts with --allow-domain, or start codex exec-server and use codex remote run --ask-network")
	case !c.Args().Present() && !c.Bool("explain"):
		return cmdutil.Usagef("sandbox needs a command: codex sandbox -- COMMAND [ARGUMENT...]")
	case kinds > 1:
		return cmdutil.Usagef("--read-only, --workspace-write and --profile exclude each other: give one of them")
	case c.IsSet("profile") && c.String("profile") == "":
		return cmdutil.Usagef("--profile needs the name of a file")
	case c.IsSet("profile") && (c.Bool("network") || c.IsSet("writable-root")):
		return cmdutil.Usagef("--network and --writable-root do not go with --profile: the profile says these itself")
	case c.IsSet("allow-domain") && c.Bool("network"):
		return cmdutil.Usagef("--network does not go with --allow-domain: it lets the command reach every host")
	case c.IsSet("writable-root") && !c.Bool("workspace-write"):
		return cmdutil.Usagef("--writable-root needs --workspace-write")
	case !slices.Contains(launch.Backends, c.String("backend")):
		return cmdutil.Usagef("--backend %q: there are %s", c.String("backend"), strings.Join(launch.Backends, ", "))
	case c.String("profile") == "-" && !c.Bool("explain"):
		return cmdutil.Usagef("--profile -: the standard input is the command's; write the profile to a file, or use --profile <(...) in bash")
	default:
		return nil
	}
}

func readProfile(name string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("--profile: %w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxProfile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("--profile: %w", err)
	case len(text) > maxProfile:
		return nil, fmt.Errorf("--profile: %s is longer than %d bytes", name, maxProfile)
	}
	return text, nil
}

// nativeProfile checks a profile, in which paths may be native or URIs as they
// are in requests, and returns it as the launcher wants it.
func nativeProfile(name string, text []byte) (permissions.Profile, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	p, err := permissions.DecodeProfile(text, func(path string) (string, error) { return pathuri.Parse(path, home) })
	if err != nil {
		return p, fmt.Errorf("%s is no permission profile: %w", name, profileError(err))
	}
	return p, nil
}

// profileError says what is wrong with a profile: the errors themselves have
// the protocol's words, which do not.
func profileError(err error) error {
	var shape *permissions.ShapeError
	var path *permissions.PathError
	switch {
	case errors.As(err, &shape):
		return shape.Cause
	case errors.As(err, &path):
		return fmt.Errorf("the path %q: %w", path.Text, path.Err)
	default:
		return err
	}
}
