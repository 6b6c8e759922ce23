// Package rendezvous implements the commands of codex rendezvous, which run the service and manage
// its tokens.
package rendezvous

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/account/home"
	"codex.internal/pkg/rendezvous"
	"codex.internal/pkg/rendezvous/natsbus"
	"github.com/urfave/cli/v2"
)

// shutdownTime bounds the shutdown of the service, which informs executors and harnesses. Connections that are
// still open then end with the program.
const shutdownTime = 10 * time.Second

func Command(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name:  "rendezvous",
		Usage: "connect clients with servers that are behind a firewall",
		Description: `Runs an environment registry and a relay. An executor, which is a server behind a
firewall, registers here and keeps a connection open. A harness, which is the client of
an agent, connects to it by the id of its environment. Their traffic is encrypted from
end to end. Both need a token: see codex rendezvous token --help.

The URL of the service is the first line on stdout; logs go to stderr. It serves
/healthz, /readyz, /metrics (for Prometheus; with --metrics-listen on a port of its own)
and, to holders of a token, /status.

Tokens must not be sent without encryption. So without --tls-cert the service listens on
a loopback address only. If a proxy in front of it does the encryption, use
--allow-plaintext-bind, and give the URL of the proxy with --public-url. Such a proxy
sees all tokens and can use them: trust it as you trust the service.

Examples:
   codex rendezvous token create --role executor --environment box
   codex rendezvous token create --role harness --environment box
   codex rendezvous --listen 127.0.0.1:8766
   codex rendezvous --listen 0.0.0.0:443 \
      --tls-cert cert.pem --tls-key key.pem --state /var/lib/rendezvous/state

With --nats several nodes behind one name are one service: an executor and its harness
can be connected to different nodes, and when a node ends, they reconnect to another.
All nodes need the same tokens.

SIGINT and SIGTERM shut the service down: it tells executors and harnesses, which
reconnect when it is back. A second signal ends it at once. At SIGHUP it reads its file
of options again, applies --log-level, and logs which options need a restart.

Every option can be set in a TOML file; --config FILE or --config-file FILE names it.`,
		Flags:       serviceFlags(),
		Subcommands: []*cli.Command{rendezvousTokenCommand(s)},
		Action:      func(c *cli.Context) error { return runRendezvous(c, s) },
	}
}

// serviceFlags returns the options of the service.
func serviceFlags() []cli.Flag {
	return slices.Concat([]cli.Flag{
		&cli.StringFlag{Name: "listen", Value: "127.0.0.1:8766", Usage: "listen on `HOST:PORT` (port 0: any free one)"},
		&cli.StringFlag{Name: "tls-cert", Usage: "the `FILE` with the certificate and its chain, as PEM"},
		&cli.StringFlag{Name: "tls-key", Usage: "the `FILE` with the certificate's key, as PEM"},
		&cli.StringFlag{Name: "state", Usage: "store registrations in `FILE`, so that a restart keeps them; without --nats also set by " + stateVariable},
		tokensFlag(),
		&cli.StringFlag{Name: "public-url", Usage: "the `URL` under which clients reach the service, if it is behind a proxy, which sees all tokens"},
		&cli.BoolFlag{Name: "allow-plaintext-bind", Usage: "listen without TLS on an address that is not loopback"},
		&cli.StringFlag{Name: "metrics-listen", Usage: "serve /metrics, for Prometheus, on `IP:PORT` without authentication, instead of on --listen"},
	}, natsFlags(), []cli.Flag{cmdutil.HomeFlag()}, cmdutil.LogFlags(), cmdutil.OptionsFileFlags(optionsName, "config"))
}

func tokensFlag() cli.Flag {
	return &cli.StringFlag{Name: "tokens", Usage: "the `FILE` with the tokens", DefaultText: "rendezvous/tokens.json in the home directory"}
}

func emptyFlag(name string) error {
	return cmdutil.Usagef("--%s is empty; leave it out or give it a value", name)
}

// openTokens returns the token file that the flags name.
func openTokens(c *cli.Context) (*rendezvous.TokenFile, error) {
	path, err := cmdutil.FlagValue(c, "tokens")
	if err != nil {
		return nil, err
	}
	switch {
	case path == "" && c.IsSet("tokens"):
		return nil, emptyFlag("tokens")
	case path == "":
		dir, err := home.Find()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(dir, "rendezvous", "tokens.json")
	}
	return rendezvous.OpenTokens(path), nil
}

// runRendezvous runs the service until a signal or its listener ends it.
func runRendezvous(c *cli.Context, s cmdutil.Streams) error {
	if c.Args().Present() {
		return cmdutil.UnknownCommand(c)
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

// optionsName is the file with options of rendezvous services in /etc/codex.
const optionsName = "rendezvous.toml"

// optionsFile describes the file with options of services.
func optionsFile(*cli.Context) cmdutil.OptionsFile {
	return cmdutil.OptionsFile{
		Name: optionsName, Variables: map[string]string{"nats": natsVariable, "state": stateVariable},
		Excluded: func() map[string][]string {
			return map[string][]string{"state": {"nats", "nats-creds", "nats-ca", "nats-replicas", "allow-plaintext-nats"}, "nats": {"state"}}
		},
	}
}

// runWithOptions runs the service with all its options.
func runWithOptions(c *cli.Context, s cmdutil.Streams, options *cmdutil.Options) error {
	log, err := cmdutil.NewLogger(c, s.Err)
	if err != nil {
		return err
	}
	// Scenario: a script passes --state=$STATE, and the variable is not set. The service would start without its state, so an empty value is an error.
	for _, name := range []string{"listen", "tls-cert", "tls-key", "state", "public-url", "nats", "nats-creds", "nats-ca"} {
		if c.IsSet(name) && c.String(name) == "" {
			return emptyFlag(name)
		}
	}
	if err := cmdutil.MakeHome(c); err != nil {
		return err
	}
	config, err := rendezvousTLS(c, log)
	if err != nil {
		return err
	}
	tokens, err := openTokens(c)
	if err != nil {
		return err
	}
	list, err := tokens.List()
	if err != nil {
		return err
	}
	if len(list) == 0 {
		log.Warn("no tokens exist yet, so no client is accepted; codex rendezvous token create makes one", "file", tokens.Path())
	}
	shared, err := natsOptions(c, log)
	if err != nil {
		return err
	}
	addr, err := listenAddress(c, config != nil)
	if err != nil {
		return err
	}
	metrics, err := cmdutil.MetricsAddress(c)
	if err != nil {
		return err
	}
	opts := rendezvous.Options{
		Tokens: tokens, Logger: log, Version: cmdutil.Version(), PublicURL: c.String("public-url"), StateFile: stateFile(c, shared != nil),
		PrivateMetrics: metrics.IsValid(),
	}
	if err := opts.Check(); err != nil {
		return flagged(err)
	}
	if done, err := options.Checked(s.Out); done {
		return err
	}
	listener, err := listenRendezvous(c.String("listen"), addr)
	if err != nil {
		return err
	}
	scraped, err := cmdutil.ListenMetrics(metrics)
	if err != nil {
		_ = listener.Close()
		return err
	}
	closeUnused := func() {
		_ = listener.Close()
		if scraped != nil {
			_ = scraped.Close()
		}
	}
	var node *natsbus.Node
	if shared != nil {
		node, err = natsbus.Connect(c.Context, *shared)
		if err != nil {
			closeUnused()
			return fmt.Errorf("--nats: %w", err)
		}
		defer node.Close()
		opts.State, opts.Bus = node.State, node.Bus
	}
	srv, err := rendezvous.New(c.Context, opts)
	if err != nil {
		closeUnused()
		if errors.Is(err, rendezvous.ErrLocked) {
			err = cmdutil.WithAdvice(err, "another codex rendezvous uses this file: give each its own --state, or make them one service with --nats")
		}
		return err
	}
	again := &cmdutil.Reloader{
		Start: options, Flags: serviceFlags, File: optionsFile, Log: log,
		Can: func(option string) bool { return option == "log-level" }, Apply: cmdutil.SetLogLevel,
	}
	defer cmdutil.OnHangup(again.Reload)()
	defer cmdutil.StartMetrics(scraped, srv.Metrics(), log)()
	return serveRendezvous(c, s, srv, listener, config, node, log)
}

// stateVariable is a variable with the path of --state. A service with NATS does not use it. Scenario: the packaged unit sets
// it, and the operator adds --nats.
const stateVariable = "CODEX_RENDEZVOUS_STATE"

// stateFile returns the file that stores the state; empty: none does.
func stateFile(c *cli.Context, shared bool) string {
	if path := c.String("state"); path != "" || shared {
		return path
	}
	return os.Getenv(stateVariable)
}

// flagged converts an error of the service about its options to a usage error with the name of the flag.
func flagged(err error) error {
	var unfit *rendezvous.InvalidError
	if !errors.As(err, &unfit) {
		return err
	}
	return cmdutil.Usagef("--%s %s", strings.ReplaceAll(strings.ToLower(unfit.What), " ", "-"), unfit.Reason)
}

// rendezvousTLS reads the certificate that the flags name. It returns nil if the service does not use TLS.
func rendezvousTLS(c *cli.Context, log *slog.Logger) (*tls.Config, error) {
	files, err := cmdutil.CheckTLSFiles(c.String("tls-cert"), c.String("tls-key"), "")
	if err != nil || files.Cert == "" {
		return nil, err
	}
	return files.Server(log)
}

// listenAddress returns the address of --listen. It returns an error if tokens would be sent to it in the clear.
func listenAddress(c *cli.Context, encrypted bool) (*net.TCPAddr, error) {
	where := c.String("listen")
	addr, err := net.ResolveTCPAddr("tcp", where)
	var malformed *net.AddrError
	switch {
	case errors.As(err, &malformed):
		return nil, cmdutil.Usagef("--listen %s: %s; expected HOST:PORT", where, malformed.Err)
	case err != nil:
		return nil, fmt.Errorf("--listen %s: %w", where, err)
	}
	if !encrypted && !addr.IP.IsLoopback() && !c.Bool("allow-plaintext-bind") {
		return nil, fmt.Errorf("--listen %s is not a loopback address, and tokens would be sent in the clear: "+
			"add --tls-cert and --tls-key, or --allow-plaintext-bind if a proxy in front encrypts", where)
	}
	return addr, nil
}

// listenRendezvous listens on an address, which --listen names as where.
func listenRendezvous(where string, addr *net.TCPAddr) (net.Listener, error) {
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err // omit the address, which the message has already
		}
		return nil, fmt.Errorf("--listen %s: %w%s", where, err, cmdutil.ListenHint(err))
	}
	return l, nil
}

// serveRendezvous serves until a signal arrives or a node has lost NATS permanently. Then it shuts
// down.
func serveRendezvous(c *cli.Context, s cmdutil.Streams, srv *rendezvous.Server, l net.Listener, config *tls.Config, node *natsbus.Node, log *slog.Logger) error {
	// The first signal ends ctx. After stop, a second one has its default effect.
	ctx, stop := signal.NotifyContext(c.Context, append(cmdutil.NotIgnored(os.Interrupt), syscall.SIGTERM)...)
	defer stop()
	context.AfterFunc(ctx, stop)
	ctx, cancelCause := context.WithCancelCause(ctx)
	if node != nil {
		var waiting sync.WaitGroup
		waiting.Go(func() { cancelCause(node.Wait(ctx)) })
		defer waiting.Wait()
	}
	defer cancelCause(nil)
	url := "http://"
	if config != nil {
		url = "https://"
	}
	url += l.Addr().String()
	_, err := fmt.Fprintln(s.Out, url)
	if err != nil {
		_ = l.Close()
		err = fmt.Errorf("print the URL: %w", err)
	} else {
		log.Info("listening", "url", url, "pid", os.Getpid())
		manager := cmdutil.FindServiceManager(log)
		defer manager.Tend()()
		manager.Ready()
		err = srv.Serve(ctx, l, config)
		manager.Stopping()
	}
	log.Info("shutting down")
	bound, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if e := srv.Shutdown(bound); e != nil {
		log.Warn("not everything ended in time", "error", e)
	}
	switch why := context.Cause(ctx); {
	case errors.Is(why, natsbus.ErrLost):
		return fmt.Errorf("--nats: %w", why)
	case errors.Is(err, rendezvous.ErrServerClosed):
		return nil
	default:
		return err
	}
}
