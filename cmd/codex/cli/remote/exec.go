package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/cmd/codex/cli/egressfile"
	"codex.internal/cmd/codex/cli/sandbox"
	"codex.internal/pkg/approval"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/wire/pathuri"
	"github.com/google/uuid"
	"github.com/urfave/cli/v2"
)

func remoteExecCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "exec", Usage: "run a command in the server's sandbox, and ask when that denies it", ArgsUsage: "-- COMMAND [ARGUMENT...]",
		Description: `Runs the command as codex remote run does, but in a sandbox: by default it may
read everything, write nothing and reach no network. When the sandbox denies it
something, you are asked on the terminal whether to run it again without one.
It is then started again with the same input. Answer y (once) or s (for this
session, with --shell); anything else means no.

--ask never never asks, on-failure asks after a denial, and always also asks before
the command runs for the first time. Without a terminal you are not asked. --yes
retries without asking, --no-input never retries. With a profile that denies reading
some files the command is never retried: without the sandbox it could read them.

--shell runs the command lines that you type, one by one, each with a terminal and
in the sandbox, in a directory that cd changes. With workspace-write the workspace
stays --cwd. exit, or Ctrl-D, ends it.

--allow-domain lets the sandboxed command reach some hosts, --ask-network asks
about the others, and --network lets it reach every host: see codex remote run.
A command that fails after a host was refused counts as denied.

--json prints an object for each event, one a line: started, output, exited,
closed, denied, network, approval, retry.

Exits with the command's exit code, which is 128+n after signal n, or with 124:
--timeout is over; 125: something else failed, such as the connection; 126: the
sandbox denied something and the command was not retried, or you said no; 127:
there is no such command.

Examples:
   codex remote exec -- make -n
   codex remote exec --sandbox workspace-write --cwd /src -- make test
   codex remote exec --yes -- touch /srv/x
   codex remote exec --allow-domain pypi.org -- curl -sI https://pypi.org/
   codex remote exec --shell --sandbox workspace-write --cwd /src`,
		Flags: append([]cli.Flag{
			cmdutil.CommandLine,
			urlFlag(), caFlag(), clientCertFlag(), clientKeyFlag(), envOrVarFlag(), cwdFlag("run in `DIR` of the server; default: the server's own directory"), envVarFlag(), ttyFlag(), interactiveFlag(), forwardFlag(), verboseFlag(), quietFlag(),
			&cli.StringFlag{Name: "ask", Usage: "never, on-failure or always (`WHEN`); default: on-failure if there is a terminal, never otherwise"},
			&cli.BoolFlag{Name: "yes", Usage: "retry without the sandbox, and do not ask"},
			&cli.BoolFlag{Name: "no-input", Usage: "never ask and never retry"},
			cmdutil.Duration(cli.GenericFlag{Name: "timeout", Usage: "kill the command after `DURATION`, such as 90s; a retry gets the full time again", DefaultText: "none"}, 0, time.Millisecond),
			&cli.BoolFlag{Name: "json", Usage: "print events as JSON"},
			&cli.BoolFlag{Name: "shell", Usage: "run the command lines that you type"},
		}, slices.Concat(sandbox.Flags(sandbox.ReadOnly), askNetworkFlags(), cmdutil.RemoteLimitFlags())...),
		Action: func(c *cli.Context) error { return ourFailure(execRemote(c, s)) },
	}
}

// execRemote is the action of exec.
func execRemote(c *cli.Context, s cmdutil.Streams) error {
	o, err := parseOptions(c, true)
	switch shell := c.Bool("shell"); {
	case err != nil:
		return err
	case shell && c.Args().Present():
		return cmdutil.Usagef("--shell takes no command, got %q", c.Args().First())
	case shell && o.json:
		return cmdutil.Usagef("--shell and --json exclude each other")
	case !shell && !c.Args().Present():
		return cmdutil.Usagef("exec needs a command: codex remote exec -- COMMAND [ARGUMENT...]")
	case shell && newScreen(s).f == nil:
		return cmdutil.Usagef("--shell needs a terminal as its input; to run a script use codex remote exec -- sh FILE")
	}
	x, err := openRemote(c, s, o)
	if err != nil {
		return err
	}
	defer x.close()
	if c.Bool("shell") {
		return x.exit(x.interact(x.ctx))
	}
	argv := c.Args().Slice()
	return x.exit(x.do(x.ctx, job{argv: argv, asked: argv, cwd: x.cwd}))
}

// ourFailure gives an error that is not the command's own the exit code that exec uses for such errors.
func ourFailure(err error) error {
	var e *cmdutil.ExitError
	var refused *execclient.ServerError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &e):
		return &cmdutil.ExitError{Code: cmdutil.ExitOurs, Err: err}
	case e.Code == cmdutil.ExitUnreachable && e.Err != nil:
		return &cmdutil.ExitError{Code: cmdutil.ExitOurs, Err: e.Err}
	case e.Code == cmdutil.ExitNotStarted && e.Err != nil && (!errors.As(err, &refused) || refused.Code == execproto.CodeInvalidParams):
		// The command itself was not started.
		return &cmdutil.ExitError{Code: cmdutil.ExitOurs, Err: e.Err}
	default:
		return err
	}
}

// remoteExec runs commands on one server with the user's terminal. It is for one goroutine.
type remoteExec struct {
	execOptions
	s           cmdutil.Streams
	ctx         context.Context // canceled by close
	client      *execclient.Client
	environment string // id of the environment
	shell       execproto.Shell
	cwd         string          // the directory of commands, as a URI
	sandbox     json.RawMessage // the sandbox to request

	rules    approval.Policy
	silent   string   // the reason why a denial leads to no question
	console  *console // nil: questions cannot be asked
	approved approval.Session

	screen   screen
	written  written
	input    *input
	signals  chan os.Signal
	caught   syscall.Signal // the last signal that was passed on to a command
	link     *link
	network  *network
	jobs     int
	confined atomic.Pointer[string] // the id of the last sandboxed process
	closing  []func()               // called by close in reverse order
}

// openRemote connects to the server that the command names.
func openRemote(c *cli.Context, s cmdutil.Streams, o execOptions) (*remoteExec, error) {
	x := &remoteExec{
		execOptions: o, s: s, screen: newScreen(s),
		input: newInput(s.In), signals: make(chan os.Signal, maxSignals), link: newLink(s.Err, isQuiet(c)),
		network: newNetwork(o),
	}
	x.closing = append(x.closing, x.input.close)
	if err := x.open(c); err != nil {
		x.close()
		return nil, err
	}
	return x, nil
}

func (x *remoteExec) open(c *cli.Context) error {
	ctx, cancel := context.WithCancel(withLink(c.Context, x.link))
	x.ctx = ctx
	var wg sync.WaitGroup
	wg.Go(func() { x.link.routineShow(ctx) })
	x.closing = append(x.closing, wg.Wait, cancel)
	server, err := chooseServer(c)
	if err != nil {
		return err
	}
	client, err := connectTo(ctx, c, server, x.network.answer)
	if err != nil {
		return err
	}
	x.environment, x.client = server.ID, client
	x.closing = append(x.closing, func() { _ = client.Close() })
	at, info, err := lookAround(ctx, client)
	if err != nil {
		return &cmdutil.ExitError{Code: cmdutil.ExitUnreachable, Err: err}
	}
	x.shell = info.Shell
	if err := x.settle(c, at); err != nil {
		return err
	}
	if err := x.policy.CheckRoots(func(path string) error {
		_, err := client.FS().Stat(ctx, pathuri.Format(path))
		return err
	}); err != nil {
		return err
	}
	if err := x.openForwards(); err != nil {
		return err
	}
	cmdutil.Catch(x.signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	// Without this, writing to a closed pipe would end this program at once, and the remote command
	// would continue. With it the write fails with EPIPE. No code reads the channel.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	x.closing = append(x.closing, func() { signal.Stop(x.signals); signal.Stop(broken) })
	return x.openConsole()
}

// openConsole opens the terminal for questions, if any may be asked.
func (x *remoteExec) openConsole() error {
	asks := x.approves && !x.noInput && !x.yes && x.ask != askNever
	if asks || x.askNetwork {
		c, err := openConsole(x.input, x.screen, x.signals, x.written.get)
		switch {
		case err == nil:
			x.console = c
			x.closing = append(x.closing, c.close)
		case x.askNetwork:
			return cmdutil.Usagef("--ask-network needs a terminal to ask on; list the hosts with --allow-domain, or use --network")
		}
	}
	x.rules, x.silent = x.execOptions.approvals(x.console != nil)
	return x.openSave()
}

// openSave opens the file of --save before any command runs, so that no command can replace
// the file first.
func (x *remoteExec) openSave() error {
	if x.save == "" {
		return nil
	}
	f, err := egressfile.Open(x.save)
	if err != nil {
		return fmt.Errorf("--save: %w", err)
	}
	x.network.file = f
	x.closing = append(x.closing, func() { _ = f.Close() })
	return nil
}

// settle determines where commands run and in which sandbox.
func (x *remoteExec) settle(c *cli.Context, at places) error {
	x.cwd = "file:///"
	if at.cwd != "" {
		x.cwd = at.cwd
	}
	var err error
	if dir := c.String("cwd"); dir != "" {
		if x.cwd, err = at.uri(dir); err != nil {
			return err
		}
	}
	if x.policy != nil && x.policy.NeedsCwd() && at.cwd == "" && c.String("cwd") == "" {
		return cmdutil.Usagef("--sandbox: the server does not report its working directory, which would be the workspace; give --cwd DIR")
	}
	if x.sandbox, err = x.policy.Object(x.cwd, at.home); err != nil {
		return err
	}
	if c.String("cwd") == "" && x.policy.WritesWorkspace() && sandbox.IsRootURI(x.cwd) {
		return cmdutil.Usagef("--sandbox: the server runs in %s, which would be the workspace, so that everything could be written; "+
			"give --cwd DIR, or --cwd / if that is what you want", sandbox.RootOf(x.cwd))
	}
	return nil
}

// close undoes openRemote.
func (x *remoteExec) close() {
	for len(x.closing) > 0 {
		last := len(x.closing) - 1
		x.closing[last]()
		x.closing = x.closing[:last]
	}
}

// exit returns the error for a command's exit code. If a signal that was passed on ended the
// command, it ends this program, too.
func (x *remoteExec) exit(code int, err error) error {
	ended := code == exitKilled || x.caught == syscall.SIGINT && code == cmdutil.ExitInterrupted
	switch {
	case err == nil && x.caught != 0 && ended:
		return cmdutil.Signaled(x.caught, nil)
	case err == nil && code != 0:
		return &cmdutil.ExitError{Code: code}
	default:
		return err
	}
}

// job is one command of the user.
type job struct {
	argv  []string // the arguments of the process
	asked []string // the arguments in the form that questions show, without the shell that codex adds
	cwd   string   // a URI
	out   *cwdFilter
	// secret is sent to each process before any typed input.
	secret string
}

// request describes a job for the approval policy.
func (x *remoteExec) request(j job) approval.Request {
	profile := permissions.Profile{Kind: permissions.Disabled, FileSystem: permissions.FileSystem{Unrestricted: true}}
	if x.policy != nil {
		profile = x.policy.Profile
	}
	return approval.Request{
		Environment: x.environment, Argv: j.asked, Cwd: j.cwd, TTY: x.tty, Sandbox: string(x.sandbox), Profile: profile,
	}
}

// params returns the parameters of a job's first attempt, and the name of its process.
func (x *remoteExec) params(j job) (execproto.StartParams, string) {
	x.jobs++
	name := path.Base(j.argv[0])
	id := fmt.Sprintf("%s-%d", name[:min(len(name), maxIDBytes)], os.Getpid())
	if x.jobs > 1 {
		id = fmt.Sprintf("%s-%d", id, x.jobs)
	}
	env := make(map[string]string, len(x.env)+1)
	for name, value := range x.env {
		env[name] = value
	}
	params := execproto.StartParams{
		ProcessID: approval.ProcessID(id, x.sandbox != nil, uuid.NewString()), Argv: j.argv, Cwd: j.cwd, Env: env,
		TTY: x.tty, PipeStdin: !x.tty && !isNull(x.s.In), Sandbox: x.sandbox,
		EnvPolicy: &execproto.EnvPolicy{Inherit: "all", Exclude: []string{}, Set: map[string]string{}, IncludeOnly: []string{}},
	}
	params.Limits = x.wantedLimits()
	params.NetworkProxy = x.networkProxy()
	params.EnforceManagedNetwork = params.NetworkProxy != nil
	if x.tty {
		x.addTerminal(&params)
	}
	return params, id
}
