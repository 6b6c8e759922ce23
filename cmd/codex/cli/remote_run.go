package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

// secondInterrupt is how soon after an interrupt another one means that the
// remote command is to be killed.
const secondInterrupt = 2 * time.Second

func remoteRunCommand(s streams) *cli.Command {
	return &cli.Command{
		Name: "run", Usage: "run a command on the server", ArgsUsage: "-- COMMAND [ARGUMENT...]", OnUsageError: onUsageError,
		Description: `Runs the command with the server's environment (all of it that holds no
secret by its name) and shows its output as it comes. Stdin is passed on, with
its end. Exits with the command's exit code, or 255 if the server could not be
reached or the connection broke.

An interrupt (Ctrl-C) interrupts the remote command; a second one within two
seconds kills it.

With --sandbox the server confines the command. read-only: it may read
everything, write nothing and reach no network. workspace-write: it may write
also below --cwd (by default the server's directory), /tmp and $TMPDIR, but not
in .git, .agents and .codex. Anything else is JSON: a permission profile, or a
whole sandbox object of the protocol, which is sent as it is. A server that
cannot enforce it refuses to run the command.

Examples:
   codex remote run -- uname -a
   codex remote run --cwd /src --env CGO_ENABLED=0 -- go test ./...
   tar c . | codex remote run --cwd /tmp -- tar x
   codex remote run --sandbox workspace-write --cwd /src -- make test
   codex remote run --tty -- top`,
		Flags: []cli.Flag{
			urlFlag(),
			&cli.StringFlag{Name: "cwd", Usage: "run in `DIR` of the server; default: the server's own directory"},
			&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "set `NAME=VALUE` for the command; may be repeated. An ID alone chooses the environment"},
			&cli.BoolFlag{Name: "tty", Aliases: []string{"t"}, Usage: "give the command a terminal"},
			&cli.StringFlag{Name: "sandbox", Usage: "confine the command: read-only, workspace-write or JSON (`POLICY`)"},
		},
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return usagef("run needs a command: codex remote run -- COMMAND [ARGUMENT...]")
			}
			return runRemote(c, s, c.Args().Slice(), c.Bool("tty"))
		},
	}
}

func remoteShellCommand(s streams) *cli.Command {
	return &cli.Command{
		Name: "shell", Usage: "open your shell on the server", OnUsageError: onUsageError,
		Flags: []cli.Flag{
			urlFlag(),
			&cli.StringFlag{Name: "cwd", Usage: "start in `DIR` of the server"},
			&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "set `NAME=VALUE`; may be repeated. An ID alone chooses the environment"},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("shell takes no arguments, got %q; to run a command use codex remote run", c.Args().First())
			}
			return runRemote(c, s, nil, true)
		},
	}
}

// runRemote runs argv, or the server's shell without one.
func runRemote(c *cli.Context, s streams, argv []string, tty bool) error {
	env, err := parseEnv(c.StringSlice("env"))
	if err != nil {
		return err
	}
	policy, err := parsePolicy(c.String("sandbox"))
	if err != nil {
		return err
	}
	if policy == nil && c.IsSet("sandbox") {
		return usagef("--sandbox needs read-only, workspace-write or JSON; without a sandbox leave it out")
	}
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	client, err := connect(ctx, c)
	if err != nil {
		return err
	}
	defer client.Close()
	at, info, err := lookAround(ctx, client)
	if err != nil {
		return &exitError{exitUnreachable, err}
	}
	if argv == nil {
		argv = []string{info.Shell.Path, "-l"}
	}
	cwd := "file:///"
	if at.cwd != "" {
		cwd = at.cwd
	}
	if dir := c.String("cwd"); dir != "" {
		if cwd, err = at.uri(dir); err != nil {
			return err
		}
	}
	if policy != nil && policy.needsCwd() && at.cwd == "" && c.String("cwd") == "" {
		return usagef("--sandbox: the server does not tell its working directory, which would be the workspace; give --cwd DIR")
	}
	confined, err := policy.object(cwd, at.home)
	if err != nil {
		return err
	}
	r := &remoteRun{s: s, client: client, tty: tty, policy: policy}
	code, err := r.run(ctx, execproto.StartParams{
		ProcessID: fmt.Sprintf("%s-%d", path.Base(argv[0]), os.Getpid()), Argv: argv, Cwd: cwd, Env: env, TTY: tty, PipeStdin: !tty && !r.noInput(),
		EnvPolicy: &execproto.EnvPolicy{Inherit: "all", Exclude: []string{}, Set: map[string]string{}, IncludeOnly: []string{}},
		Sandbox:   confined,
	})
	if err == nil && code != 0 && policy != nil && r.state.SandboxDenied {
		fmt.Fprintf(s.err, "codex: the sandbox on the executor probably denied it; %s\n", policy.wider())
	}
	switch {
	case err != nil:
		return err
	case code != 0:
		return &exitError{code: code}
	default:
		return nil
	}
}

// parseEnv returns the variables; what has no equals sign chooses the server.
func parseEnv(list []string) (map[string]string, error) {
	env := make(map[string]string, len(list))
	for _, kv := range list {
		name, value, ok := strings.Cut(kv, "=")
		if !ok && name != "" {
			continue
		}
		if name == "" {
			return nil, usagef("--env needs NAME=VALUE, or the ID of an environment, not %q", kv)
		}
		env[name] = value
	}
	return env, nil
}

// remoteRun is one command on the server with this terminal as its own.
type remoteRun struct {
	s      streams
	client *execclient.Client
	p      *execclient.Process
	state  execclient.ExitState
	tty    bool
	policy *remotePolicy // nil: none was asked for
}

// run starts the process and stays with it to its end.
func (r *remoteRun) run(ctx context.Context, params execproto.StartParams) (int, error) {
	restore := func() {}
	if r.tty {
		if local, ok := os.LookupEnv("TERM"); ok {
			if _, given := params.Env["TERM"]; !given {
				params.Env["TERM"] = local
			}
		}
		params.Size = r.size()
	}
	p, err := r.client.Start(ctx, params)
	if err != nil {
		return 0, runError(err)
	}
	r.p = p
	if r.policy != nil && r.policy.confines && p.SandboxType() == "none" {
		_, err := p.Terminate(ctx)
		return 0, &exitError{exitNotStarted, errors.Join(errors.New("the server did not confine the command, which was killed; it may be too old for --sandbox"), err)}
	}
	if r.tty {
		restore = r.makeRaw()
	}
	defer restore()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { r.routineSignals(ctx) })
	wg.Go(func() { r.routineResize(ctx) })
	// A read of stdin cannot be interrupted, so nobody waits for this one.
	if params.TTY || params.PipeStdin {
		go r.routineStdin(ctx)
	}

	state, err := p.Stream(ctx, r.s.out, r.s.err)
	r.state = state
	if err != nil {
		if _, e := p.Terminate(context.WithoutCancel(ctx)); e == nil {
			return state.Code, err
		}
		return state.Code, &exitError{exitUnreachable, err}
	}
	return state.Code, nil
}

// runError tells a command that could not be started, as a shell would, from
// a connection that broke.
func runError(err error) error {
	var refused *execclient.ServerError
	if errors.As(err, &refused) {
		if strings.Contains(refused.Message, "sandbox intent cannot be enforced") {
			err = fmt.Errorf("%w; run codex doctor on the executor to see what is missing", err)
		}
		return &exitError{exitNotStarted, err}
	}
	return &exitError{exitUnreachable, err}
}

// routineStdin passes stdin on, with its end. On a terminal its end is a key.
func (r *remoteRun) routineStdin(ctx context.Context) {
	in := r.p.Stdin(ctx)
	_, err := io.Copy(in, r.s.in)
	if err != nil || r.tty {
		return
	}
	if err := in.Close(); errors.Is(err, execclient.ErrNoCloseStdin) {
		fmt.Fprintln(r.s.err, "codex: this server cannot close a command's stdin; a command that reads to its end will wait")
	}
}

// routineSignals passes interrupts on.
func (r *remoteRun) routineSignals(ctx context.Context) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case sig := <-signals:
			switch {
			case sig == syscall.SIGINT && time.Since(last) > secondInterrupt:
				last = time.Now()
				_ = r.p.Signal(ctx, execproto.SignalInterrupt)
			default:
				_, _ = r.p.Terminate(ctx)
			}
		}
	}
}

// resize passes the size of the terminal on.
func (r *remoteRun) resize(ctx context.Context, size *execproto.TerminalSize) {
	if r.tty && size != nil {
		_ = r.p.Resize(ctx, size.Rows, size.Cols)
	}
}

// terminal is the terminal that stdin is; nil when it is none.
func (r *remoteRun) terminal() *os.File {
	if f, ok := fileOf(r.s.in); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// noInput reports whether stdin is the null device: then the command gets one
// of its own, which servers that cannot close a pipe can give it too.
func (r *remoteRun) noInput() bool {
	f, ok := fileOf(r.s.in)
	if !ok {
		return false
	}
	st, err := f.Stat()
	null, nullErr := os.Stat(os.DevNull)
	return err == nil && nullErr == nil && os.SameFile(st, null)
}

// size is the size of the terminal, if there is one.
func (r *remoteRun) size() *execproto.TerminalSize {
	f := r.terminal()
	if f == nil {
		return nil
	}
	cols, rows, err := term.GetSize(int(f.Fd()))
	if out, ok := fileOf(r.s.out); err != nil && ok {
		// A Windows console tells it of its output only.
		cols, rows, err = term.GetSize(int(out.Fd()))
	}
	if err != nil || cols < 1 || rows < 1 {
		return nil
	}
	return &execproto.TerminalSize{Rows: uint16(rows), Cols: uint16(cols)}
}

// makeRaw hands every key to the remote terminal until restore is called.
func (r *remoteRun) makeRaw() (restore func()) {
	f := r.terminal()
	if f == nil {
		return func() {}
	}
	state, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return func() {}
	}
	plain := showEscapes(r.s.out)
	return func() {
		plain()
		_ = term.Restore(int(f.Fd()), state)
	}
}
