//go:build linux || darwin

package server

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/host/threads"
	"codex.internal/pkg/sandbox/launch"
	"codex.internal/pkg/wire/websocket"
	"github.com/urfave/cli/v2"
)

// shutdownTime bounds an orderly end. Processes that run longer are killed with the
// program, by their parent-death signal and the watchdog.
const shutdownTime = 15 * time.Second

func Command(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name:  "exec-server",
		Usage: "wait for clients and run what they ask for",
		Description: `Listens for websocket connections, or speaks over stdin and stdout. The URL
that it listens on is printed on stdout as the first line; logs go to stderr.

A client can do what this user can. On a loopback address and on a Unix socket,
only processes of this user and of root may connect, and no sandboxed command
may; all others need a token: see --ws-auth. An address that is not loopback
needs --ws-auth too, or --tls-client-ca. A Unix socket has mode 0600, and takes no port.

With --remote it opens no port: it registers at an environment registry, such as
a codex rendezvous, and clients find it there by its --environment-id. It signs in
with the token in CODEX_RENDEZVOUS_TOKEN, which codex rendezvous token create makes,
or else as CODEX_API_KEY, CODEX_ACCESS_TOKEN or codex login say. CODEX_CA_CERTIFICATE
names a file with certificate authorities to trust besides the system's.

--listen may be repeated, but for stdio: each address has the rules above. The URLs are
printed in the order given.

Examples:
   codex exec-server --listen ws://127.0.0.1:8765
   codex exec-server --listen unix:///run/user/1000/codex.sock
   codex exec-server --listen stdio
   codex exec-server --listen ws://0.0.0.0:8765 \
      --ws-auth capability-token --ws-token-file /run/secrets/exec-token
   codex exec-server --listen wss://0.0.0.0:8765 --tls-cert cert.pem --tls-key key.pem \
      --tls-client-ca clients.pem
   codex exec-server --limit-time 1h --limit-output 1G --limit-open-files 4096
   codex exec-server --remote https://meet.example:8766 --environment-id box

The --limit options hold for every command, whatever a client asks for; a client may
ask for less. Those of memory, swap, processors and processes need a cgroup v2 with
controllers, as with Delegate=yes of systemd. The log says which ones are not held; with
--limit-require nothing starts then.

With forward it runs nothing itself, but registers a server that listens elsewhere.
With token it makes a file with a token for --ws-token-file, or tokens with roles and
ceilings for --ws-tokens.

SIGINT, SIGTERM and SIGHUP end it in order: connections are closed and
processes killed. A second signal ends it at once. With --audit-log, SIGHUP begins another
file of the audit trail instead.

Every option can stand in a TOML file, for example max-processes = 64, which
--config FILE or --config-file FILE names.
Options on the command line count more than variables, and those more than the file.`,
		OnUsageError: cmdutil.OnUsageError,
		Flags: append(append(cmdutil.ConfigOrFileFlags(), []cli.Flag{
			&cli.StringSliceFlag{Name: "listen", Value: cli.NewStringSlice("ws://127.0.0.1:0"),
				Usage: "listen on `URL`: ws://IP:PORT or wss://IP:PORT (port 0: any free one), unix:///PATH or stdio; may be repeated"},
			&cli.StringFlag{Name: "tls-cert", Usage: "wss: the `FILE` with the certificate and its chain, as PEM"},
			&cli.StringFlag{Name: "tls-key", Usage: "wss: the `FILE` with the certificate's key, as PEM"},
			&cli.StringFlag{Name: "tls-client-ca", Usage: "wss: admit clients with a certificate of an authority in `FILE`, and no others"},
			&cli.StringFlag{Name: "ws-auth", Usage: "demand a bearer token: capability-token or signed-bearer-token (`MODE`)"},
			&cli.StringFlag{Name: "ws-token-file", Usage: "capability-token: absolute path of the `FILE` with the token"},
			&cli.StringFlag{Name: "ws-token-sha256", Usage: "capability-token: SHA-256 of the token in `HEX`"},
			&cli.StringFlag{Name: "ws-tokens", Usage: "capability-token: absolute path of the `FILE` with tokens that have roles"},
			&cli.StringFlag{Name: "ws-shared-secret-file", Usage: "signed-bearer-token: absolute path of the `FILE` with the HS256 secret"},
			&cli.StringFlag{Name: "ws-issuer", Usage: "signed-bearer-token: the `ISSUER` that tokens must name"},
			&cli.StringFlag{Name: "ws-audience", Usage: "signed-bearer-token: the `AUDIENCE` that tokens must name"},
			&cli.Uint64Flag{Name: "ws-max-clock-skew-seconds", Value: uint64(wsauth.DefaultClockSkew / time.Second),
				Usage: "signed-bearer-token: how far clocks may differ, in `SECONDS`"},
			&cli.BoolFlag{Name: "allow-unauthenticated-bind", Usage: "let anybody in on an address that is not loopback"},
			&cli.DurationFlag{Name: "session-ttl", Value: execserver.DefaultSessionTTL,
				Usage: "how long a lost connection's session can be resumed; 0: it ends at once"},
			&cli.IntFlag{Name: "max-connections", Value: execserver.DefaultMaxConnections, Usage: "connections at a time"},
			&cli.IntFlag{Name: "max-processes", Value: execserver.DefaultMaxProcesses, Usage: "processes of a session at a time"},
			&cli.IntFlag{Name: "max-handles", Value: execserver.DefaultMaxHandles, Usage: "open file handles of a connection"},
			&cli.IntFlag{Name: "max-message-bytes", Value: websocket.DefaultMaxMessage, Usage: "size of an incoming websocket message"},
			&cli.IntFlag{Name: "concurrent-requests", Value: execserver.DefaultConcurrentRequests, Usage: "requests of a connection in work at a time"},
			&cli.StringFlag{Name: "retain-dir", Usage: "keep detached processes and their output in `DIR`; none: there are none (default: below $XDG_STATE_HOME/codex/detached)"},
			&cli.Int64Flag{Name: "retain-bytes", Value: execserver.DefaultRetainBytes, Usage: "output of all detached processes that is retained, in bytes"},
			&cli.DurationFlag{Name: "retain-for", Value: execserver.DefaultRetainFor, Usage: "how long output is retained after a detached process has ended, at most"},
			&cli.IntFlag{Name: "max-detached", Value: execserver.DefaultMaxDetached, Usage: "detached processes of an owner, with ended ones that are retained"},
			&cli.BoolFlag{Name: "exit-on-stdin-close", EnvVars: []string{"CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE"},
				Usage: "end when stdin does, as when the parent has ended"},
			&cli.StringFlag{Name: "sandbox-backend", Value: launch.Backends[0], Usage: "what confines commands: " + strings.Join(launch.Backends, ", ") + " (`NAME`)"},
			&cli.BoolFlag{Name: "proxy-private-ips-via-upstream", EnvVars: []string{"CODEX_EXEC_SERVER_PROXY_PRIVATE_IPS_VIA_UPSTREAM"},
				Usage: "let network proxies of processes reach private addresses through the proxy of HTTP_PROXY and the like"},
			&cli.StringFlag{Name: "egress-policy", Usage: "permit network proxies of processes no more than the TOML `FILE` does"},
			&cli.StringFlag{Name: "linux-sandbox-pid-namespace", Value: pidNamespaceIsolate,
				Usage: "PID namespace of sandboxed commands: isolate, the only `WORD` that is supported of Codex CLI's two"},
			&cli.BoolFlag{Name: "sandbox-stricter", Usage: "let Landlock enforce more than was asked for, where it cannot be exact, instead of refusing"},
			&cli.BoolFlag{Name: "sandbox-no-local-sockets", Usage: "give commands without a network no sockets of their own but pairs, as in Codex CLI"},
			&cli.StringFlag{Name: "metrics-listen", Usage: "serve /metrics, for Prometheus, on `IP:PORT` to everybody; without it, on --listen to clients"},
			&cli.BoolFlag{Name: "trace-commands", Usage: "give commands TRACEPARENT and TRACESTATE, to continue the trace of their request"},
			&cli.BoolFlag{Name: "no-cgroups", Usage: "do not give each process a cgroup of its own"},
		}...), slices.Concat(auditFlags(), cmdutil.ServerLimitFlags(), remoteFlags(), cmdutil.LogFlags(), cmdutil.OptionsFileFlags(optionsName))...),
		Subcommands: []*cli.Command{forwardCommand(s), tokenCommand(s)},
		Action:      func(c *cli.Context) error { return runExecServer(c, s) },
	}
}

// runExecServer runs the server until its input, a signal or its listener
// ends it.
func runExecServer(c *cli.Context, s cmdutil.Streams) error {
	// Before the secrets are taken out of the environment.
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

// runWithOptions runs the server with all its options.
func runWithOptions(c *cli.Context, s cmdutil.Streams, options *cmdutil.Options) error {
	if err := checkRemote(c); err != nil {
		return err
	}
	if _, err := tlsFiles(c); err != nil {
		return err
	}
	if err := cmdutil.RefuseRootFlags(c); err != nil {
		return err
	}
	log, err := cmdutil.NewLogger(c, s.Err)
	if err != nil {
		return err
	}
	manager := cmdutil.FindServiceManager(log)
	opts, err := serverOptions(c, log)
	if err != nil {
		return err
	}
	if _, err := parseListeners(c.StringSlice("listen")); err != nil {
		return err
	}
	if done, err := options.Checked(s.Out); done {
		return err
	}
	var release func()
	opts.RetainDir, release = claimRetainDir(c, opts.RetainDir, log)
	defer release()
	var f front
	if c.IsSet("remote") {
		f, err = remoteFront(c, s, opts, log)
	} else {
		f, err = listenFront(c, s, opts, log)
	}
	if err != nil {
		return err
	}
	if f.metrics, err = listenMetrics(c); err != nil {
		f.closeUnused()
		return err
	}
	if opts.Audit, err = openAudit(c, log); err != nil {
		f.closeUnused()
		return err
	}
	defer rotateAudit(opts.Audit, log)()
	var endTraces func()
	opts.Tracer, endTraces = startTracer(log)
	defer endTraces()
	aliases := makeAliases(s.Err)
	defer removeAliases(aliases, s.Err)
	defer threads.Ahead(threads.ServerPlan, log)()
	srv, err := execserver.New(opts)
	if err != nil {
		f.closeUnused()
		return err
	}
	return serve(c, s, srv, f, log, manager, sync.OnceFunc(func() {
		manager.Ready()
		cleanUpAliases(aliases, s.Err)
	}))
}

// front is where a server meets its clients.
type front struct {
	// serve serves until ctx ends, and calls ready when clients can come,
	// perhaps more than once.
	serve   func(ctx context.Context, srv *execserver.Server, ready func()) error
	stdin   bool         // clients come through stdin
	close   func() error // closes the listeners if serve is not called; may be nil
	metrics net.Listener // of --metrics-listen; nil: none
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
