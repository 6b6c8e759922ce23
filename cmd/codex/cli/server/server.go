package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/host/process"
	"github.com/urfave/cli/v2"
)

// shutdownTime bounds a shutdown. Processes that still run then are killed with the program: by their parent-death
// signal and by the watchdog.
const shutdownTime = 15 * time.Second

func Command(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name:  "exec-server",
		Usage: "run commands and file operations for clients",
		Description: `Clients connect by websocket, or the one client by stdin and stdout. The URL of the
server is the first line on stdout; logs go to stderr.

A client can do everything that this user can. On a loopback address and on a Unix
socket, processes of this user and of root need no token, unless they run in a
sandbox; all others need one: see --ws-auth. Every other address requires --ws-auth or
--tls-client-ca. A Unix socket has mode 0600.

With --remote the server opens no port. It registers at an environment registry, such
as codex rendezvous, and clients find it there by its --environment-id. It signs in
with the token in CODEX_RENDEZVOUS_TOKEN, which codex rendezvous token create makes;
without it, with CODEX_API_KEY, CODEX_ACCESS_TOKEN or the credentials of codex login.
CODEX_CA_CERTIFICATE names a file with certificate authorities to trust in addition to
those of the system.

--listen can be repeated, except for stdio. The URLs are printed in the order given.

Examples:
   codex exec-server --listen ws://127.0.0.1:8765
   codex exec-server --listen unix:///run/user/1000/codex.sock
   codex exec-server --listen stdio
   codex exec-server --listen ws://0.0.0.0:8765 \
      --ws-auth capability-token --ws-token-file /run/secrets/exec-token
   codex exec-server --listen wss://0.0.0.0:8765 \
      --tls-cert cert.pem --tls-key key.pem --tls-client-ca clients.pem
   codex exec-server --limit-time 1h --limit-output 1G --limit-pids 512
   codex exec-server --remote https://meet.example:8766 --environment-id box

The --limit options apply to every command. A client can ask for lower limits, not for
higher ones. Limits of memory, swap, processors and processes need a cgroup v2 with
controllers, such as that of a systemd unit with Delegate=yes. The log says which limits
cannot be enforced; with --limit-require no command starts then.

codex exec-server forward registers a server that listens elsewhere. codex exec-server
token makes a file with a token for --ws-token-file, or tokens with roles and ceilings
for --ws-tokens.

SIGINT and SIGTERM shut the server down: connections are closed and processes killed.
A second signal ends it at once. At SIGHUP the server reads the file with its options and
the egress policy again, applies --limit options, --egress-policy and --log-level to what
starts from then on, logs which options need a restart, and starts another file of the
audit trail.

Every option can be set in a TOML file, such as max-processes = 64; --config FILE or
--config-file FILE names the file. The command line has precedence over variables, and
variables over the file.`,
		Flags:       serverFlags(),
		Subcommands: []*cli.Command{forwardCommand(s), tokenCommand(s)},
		Action:      func(c *cli.Context) error { return runExecServer(c, s) },
	}
}

// runExecServer runs the server until its input, a signal or its listener
// ends it.
func runExecServer(c *cli.Context, s cmdutil.Streams) error {
	// Do this before the secrets are removed from the environment.
	if err := process.UnblockSignals(); err != nil {
		return err
	}
	if c.Args().Present() {
		return cmdutil.Usagef("exec-server takes no arguments but forward and token, got %q; see codex exec-server --help", c.Args().First())
	}
	options, err := cmdutil.ReadOptions(c, optionsFile(c))
	if err != nil {
		return err
	}
	if done, err := options.Print(s.Out); done {
		return err
	}
	return options.Explain(runWithOptions(c, s, options))
}

// runWithOptions checks the options, and runs the server with them.
func runWithOptions(c *cli.Context, s cmdutil.Streams, options *cmdutil.Options) error {
	p, err := prepare(c, s)
	if err != nil {
		return err
	}
	if c.Bool(probeFlag) {
		if !options.IsCheck() {
			return cmdutil.Usagef("--%s is for --check-config", probeFlag)
		}
		if err := p.probe(); err != nil {
			return err
		}
	}
	if done, err := options.Checked(s.Out); done {
		return err
	}
	return p.run(c, s, options)
}

// prepared is a server whose options, and the files that they name, are checked. Until run it takes no port, and it
// writes nothing: MakeHome alone may make a directory. So --check-config finds what would keep a server from starting, and
// can run beside that server.
type prepared struct {
	opts    execserver.Options
	front   front
	metrics netip.AddrPort // of --metrics-listen; invalid: the option is not given
	trail   *auditTrail    // nil: none is written
	log     *slog.Logger
	manager *cmdutil.ServiceManager
}

// prepare does everything that a start does before it listens.
func prepare(c *cli.Context, s cmdutil.Streams) (*prepared, error) {
	if err := checkRemote(c); err != nil {
		return nil, err
	}
	if _, err := tlsFiles(c); err != nil {
		return nil, err
	}
	if err := cmdutil.RefuseRootFlags(c); err != nil {
		return nil, err
	}
	if err := cmdutil.MakeHome(c); err != nil {
		return nil, err
	}
	p := new(prepared)
	var err error
	if p.log, err = cmdutil.NewLogger(c, s.Err); err != nil {
		return nil, err
	}
	p.manager = cmdutil.FindServiceManager(p.log)
	if p.opts, err = serverOptions(c, p.log); err != nil {
		return nil, err
	}
	if p.metrics, err = cmdutil.MetricsAddress(c); err != nil {
		return nil, err
	}
	if p.trail, err = findAudit(c); err != nil {
		return nil, err
	}
	if cmdutil.IsSet(c, "remote") {
		p.front, err = remoteFront(c, s, p.opts, p.log)
	} else {
		p.front, err = listenFront(c, s, p.opts, p.log)
	}
	return p, err
}

// probe returns an error if the server could not confine commands on this machine.
func (p *prepared) probe() error {
	opts := p.opts
	opts.RetainDir = "" // only a server that runs uses it
	srv, err := execserver.New(opts)
	if err != nil {
		return err
	}
	if err = srv.CheckSandbox(); err != nil {
		err = cmdutil.WithAdvice(fmt.Errorf("commands cannot be confined here: %w", err), "codex doctor says what is missing")
	}
	bound, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	return errors.Join(err, srv.Shutdown(bound))
}

// run listens, and serves until the input, a signal or the listener ends the server.
func (p *prepared) run(c *cli.Context, s cmdutil.Streams, options *cmdutil.Options) error {
	log, f := p.log, p.front
	var release func()
	p.opts.RetainDir, release = claimRetainDir(c, p.opts.RetainDir, log)
	defer release()
	if f.listen != nil {
		if err := f.listen(c.Context); err != nil {
			return err
		}
	}
	var err error
	if f.metrics, err = cmdutil.ListenMetrics(p.metrics); err != nil {
		f.closeUnused()
		return err
	}
	if p.opts.Audit, err = p.trail.open(s, log); err != nil {
		f.closeUnused()
		return err
	}
	defer closeAudit(p.opts.Audit, log)
	var endTraces func()
	p.opts.Tracer, endTraces = startTracer(log)
	defer endTraces()
	warn := warner(c, s.Err, log)
	aliases := makeAliases(warn)
	defer removeAliases(aliases, warn)
	srv, err := execserver.New(p.opts)
	if err != nil {
		f.closeUnused()
		return err
	}
	again := newReloader(options, srv, log)
	defer cmdutil.OnHangup(func() {
		rotate(p.opts.Audit, log)
		again.Reload()
	})()
	return serve(c, s, srv, f, log, p.manager, sync.OnceFunc(func() {
		p.manager.Ready()
		cleanUpAliases(aliases, warn)
	}))
}

// front accepts the clients of a server.
type front struct {
	listen func(ctx context.Context) error // takes the ports; nil: the front has none
	// serve accepts clients until ctx ends. It calls ready when clients can connect, possibly more
	// than once.
	serve   func(ctx context.Context, srv *execserver.Server, ready func()) error
	stdin   bool         // the client uses stdin
	close   func() error // closes the listeners of a front whose serve is not called; may be nil
	metrics net.Listener // listener of --metrics-listen; nil: the option is not given
}

// closeUnused closes the listeners of a front that does not serve.
func (f *front) closeUnused() {
	if f.close != nil {
		_ = f.close()
	}
	if f.metrics != nil {
		_ = f.metrics.Close()
	}
}
