// Package sandbox implements the command codex sandbox, and the sandboxes that options of the
// command line define.
package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/sandbox/egress"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/wire/pathuri"
	"github.com/urfave/cli/v2"
)

const (
	// maxProfile bounds a profile, in bytes. The launcher has the same limit.
	maxProfile = 16 << 20
	// notStarted is the exit code of the launcher if it cannot start the command.
	notStarted = 125
	// onAServer is the advice on a system that supports no sandbox.
	onAServer = "use the sandbox of a server on Linux: codex remote run --sandbox"
)

func Command(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "sandbox", Usage: "run a command on this machine in a sandbox (Linux only)", ArgsUsage: "-- COMMAND [ARGUMENT...]",
		Description: `By default (--read-only) the command can read everything, write nothing and has no
network. With --workspace-write it can also write below the current directory (or
--cwd), /tmp and $TMPDIR, but not in .git, .agents and .codex. --profile-file and
--permission-profile, a table [permissions.NAME] of config.toml, define all permissions.
--allow-domain lets the command reach some hosts, on one port or on all, and no others.
Without any of these options, the profile in default_permissions of config.toml is used.

The command has this terminal, its input and output, and receives the signals. Exits
with the command's exit code, or with 128 plus the number of the signal that ended it.
Other exit codes: 125 the sandbox could not be made (see codex doctor), 126 the command
cannot be executed, 127 the command does not exist.

Examples:
   codex sandbox -- ls -l ~
   codex sandbox --workspace-write -- make test
   codex sandbox --workspace-write --writable-root ~/.cache --network \
      -- go build ./...
   codex sandbox --workspace-write --allow-domain pypi.org:443 \
      -- pip download requests
   codex sandbox -P dev -C ~/src -- make
   codex sandbox --workspace-write --explain
   codex sandbox --workspace-write --explain --target windows`,
		Flags: slices.Concat([]cli.Flag{&cmdutil.Operands{Kind: cmdutil.OfferLocalFiles, CommandLine: true}}, Flags(""), []cli.Flag{
			&cli.StringFlag{Name: "permission-profile", Aliases: []string{"P"}, Usage: "use the permission profile `NAME` of config.toml, or :read-only, :workspace or :danger-full-access"},
			cmdutil.OverrideFlag(),
			&cli.StringFlag{Name: "profile", Aliases: []string{"p"}, Usage: "also read the config profile `NAME`, which is NAME.config.toml beside config.toml and takes precedence"},
			// Users who know --ask-network from codex remote run get an error that explains why it
			// is missing here.
			&cli.BoolFlag{Name: "ask-network", Hidden: true, Usage: "is refused: the command could answer the questions itself"},
			&cli.StringFlag{Name: "backend", Value: runner.Backends[0], Usage: "the sandbox backend: " + strings.Join(runner.Backends, ", ") + " (`NAME`)"},
			&cli.BoolFlag{Name: "stricter", Usage: "where Landlock cannot enforce a policy exactly, enforce a stricter one instead of refusing"},
			&cli.BoolFlag{Name: "no-local-sockets", Usage: "without network, let the command create socket pairs only, as in Codex CLI"},
			&cli.BoolFlag{Name: "explain", Usage: "print the permissions of the command, and run nothing"},
			&cli.StringFlag{Name: "target", Value: targetLinux, Usage: "with --explain: print the permissions on `SYSTEM`, linux or windows"},
			&cli.StringFlag{Name: "cwd", Aliases: []string{"cd", "C"}, Usage: "start the command in `DIR`, which is then the workspace"},
		}, refusedFlags()),
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

// checkTarget returns an error for an unknown target, and for windows without --explain.
func checkTarget(c *cli.Context) error {
	switch target := c.String("target"); {
	case target != targetLinux && target != targetWindows:
		return cmdutil.Usagef("--target %q: expected %s or %s", target, targetLinux, targetWindows)
	case target == targetWindows && !c.Bool("explain"):
		return cmdutil.Usagef("--target windows needs --explain: commands are confined on Linux only")
	case target == targetWindows && c.Bool("allow-git"):
		return cmdutil.Usagef("--allow-git cannot be used with --target windows: it is for Linux")
	case target == targetWindows && c.IsSet("allow-domain"):
		return cmdutil.Usagef("--allow-domain cannot be used with --target windows: it is for Linux")
	case target == targetWindows && (c.IsSet("backend") || c.Bool("stricter") || c.Bool("no-local-sockets")):
		return cmdutil.Usagef("--backend, --stricter and --no-local-sockets cannot be used with --target windows: they are for Linux")
	default:
		return checkSandbox(c)
	}
}

// localLaunch has the arguments of the launcher.
type localLaunch struct {
	args    []string
	profile []byte // nil: the arguments contain a short form
	command []string
	offline bool // the profile has no network
	// endpoints are the hosts that the command may reach through a network proxy.
	endpoints *egress.Endpoints
	private   bool // --allow-private
}

// launchOf returns the launcher's arguments for the options.
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
	l := &localLaunch{endpoints: endpoints, private: c.Bool("allow-private"), command: c.Args().Slice(), args: []string{"--sandbox-policy-cwd", cwd, "--backend", c.String("backend"), "--plain-errors"}}
	for _, flag := range []string{"stricter", "no-local-sockets", "explain"} {
		if c.Bool(flag) {
			l.args = append(l.args, "--"+flag)
		}
	}
	p, err := givenProfile(c, s.In)
	if err != nil {
		return nil, err
	}
	write := writesByWord(c)
	if p != nil {
		write = writesWorkspace(*p)
	}
	if err := checkWorkspace(c, write); err != nil {
		return nil, err
	}
	if p == nil {
		short, err := wordProfile(c, write)
		if err != nil {
			return nil, err
		}
		p = &short
	}
	hideState(c, p)
	if err := p.CheckText(); err != nil {
		return nil, err
	}
	l.profile, l.offline = p.AppendJSON(nil), p.Network != permissions.NetworkEnabled
	return l, nil
}

// wordProfile returns the profile of --read-only or --workspace-write.
func wordProfile(c *cli.Context, write bool) (permissions.Profile, error) {
	p := permissions.ReadOnly()
	if c.Bool("network") {
		p.Network = permissions.NetworkEnabled
	}
	add := func(path permissions.Path) {
		p.FileSystem.Entries = append(p.FileSystem.Entries, permissions.Entry{Path: path, Access: permissions.Write})
	}
	if !write {
		return p, nil
	}
	for _, kind := range []permissions.PathKind{permissions.ProjectRoots, permissions.SlashTmp, permissions.Tmpdir} {
		add(permissions.Path{Kind: kind})
	}
	if c.Bool("allow-git") {
		p.FileSystem.Entries = append(p.FileSystem.Entries, gitEntry)
	}
	for _, root := range c.StringSlice("writable-root") {
		path, err := filepath.Abs(root)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return p, fmt.Errorf("--writable-root: %w; the directory must exist", err)
		}
		add(permissions.Path{Kind: permissions.Literal, Text: path})
	}
	return p, nil
}

// checkWorkspace returns an error if the root directory would be the workspace only because it is the
// current directory, as in a service.
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

// checkSandbox returns an error for options that cannot be used together.
func checkSandbox(c *cli.Context) error {
	switch {
	case c.Bool("ask-network"):
		return cmdutil.Usagef("--ask-network cannot be used with codex sandbox: the command has this terminal and could answer for you; " +
			"list the hosts with --allow-domain, or start codex exec-server and use codex remote run --ask-network")
	case !c.Args().Present() && !c.Bool("explain"):
		return cmdutil.Usagef("sandbox needs a command: codex sandbox -- COMMAND [ARGUMENT...]")
	case !slices.Contains(runner.Backends, c.String("backend")):
		return cmdutil.Usagef("--backend %q: there are %s", c.String("backend"), strings.Join(runner.Backends, ", "))
	}
	if err := checkRefused(c); err != nil {
		return err
	}
	if err := checkFlags(c); err != nil {
		return err
	}
	if c.String("profile-file") == "-" && !c.Bool("explain") {
		return errInputIsTheCommands
	}
	return nil
}

func readProfile(name string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("--profile-file: %w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxProfile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("--profile-file: %w", err)
	case len(text) > maxProfile:
		return nil, fmt.Errorf("--profile-file: %s is longer than %d bytes", name, maxProfile)
	}
	return text, nil
}

// nativeProfile checks a profile and returns it in the launcher's form. Its paths may be native, or
// URIs as in requests.
func nativeProfile(name string, text []byte) (permissions.Profile, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	p, err := permissions.DecodeProfile(text, func(path string) (string, error) { return pathuri.Parse(path, home) })
	if err != nil {
		return p, fmt.Errorf("%s is not a valid permission profile: %w", name, profileError(err))
	}
	return p, nil
}

// profileError rewords an error of decoding a profile for the command line, because the error itself uses the
// words of the protocol.
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
