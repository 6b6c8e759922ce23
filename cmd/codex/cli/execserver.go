//go:build linux || darwin

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"codex.internal/pkg/execenv"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/process"
	"codex.internal/pkg/sandbox"
	"codex.internal/pkg/transport"
	"codex.internal/pkg/wsauth"
	"github.com/urfave/cli/v2"
)

// shutdownTime bounds an orderly end. What has not ended by then is killed
// with the program, by its parent-death signal and the watchdog.
const shutdownTime = 15 * time.Second

func execServerCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:  "exec-server",
		Usage: "wait for clients and run what they ask for",
		Description: `Listens for websocket connections, or speaks over stdin and stdout. The URL
that it listens on is printed on stdout as the first line; logs go to stderr.

Whoever reaches the port can do what this user can. It is therefore bound to
a loopback address; any other needs --ws-auth.

Examples:
   codex exec-server --listen ws://127.0.0.1:8765
   codex exec-server --listen stdio
   codex exec-server --listen ws://0.0.0.0:8765 \
      --ws-auth capability-token --ws-token-file /run/secrets/exec-token

SIGINT and SIGTERM end it in order: connections are closed and processes
killed. A second signal ends it at once.`,
		OnUsageError: onUsageError,
		Flags: append(append(configFlags(), []cli.Flag{
			&cli.StringFlag{Name: "listen", Value: "ws://127.0.0.1:0", Usage: "listen on `URL`: ws://IP:PORT (port 0: any free one) or stdio"},
			&cli.StringFlag{Name: "remote", Usage: "register at the environment registry at `URL` in place of listening"},
			&cli.StringFlag{Name: "environment-id", Usage: "with --remote: the `ID` of the environment to register"},
			&cli.StringFlag{Name: "name", Usage: "with --remote: a `NAME` for people"},
			&cli.BoolFlag{Name: "use-agent-identity-auth", Usage: "with --remote: sign in as the agent that CODEX_ACCESS_TOKEN names"},
			&cli.StringFlag{Name: "ws-auth", Usage: "demand a bearer token: capability-token or signed-bearer-token (`MODE`)"},
			&cli.StringFlag{Name: "ws-token-file", Usage: "capability-token: absolute path of the `FILE` with the token"},
			&cli.StringFlag{Name: "ws-token-sha256", Usage: "capability-token: SHA-256 of the token in `HEX`"},
			&cli.StringFlag{Name: "ws-shared-secret-file", Usage: "signed-bearer-token: absolute path of the `FILE` with the HS256 secret"},
			&cli.StringFlag{Name: "ws-issuer", Usage: "signed-bearer-token: the `ISSUER` that tokens must name"},
			&cli.StringFlag{Name: "ws-audience", Usage: "signed-bearer-token: the `AUDIENCE` that tokens must name"},
			&cli.Uint64Flag{Name: "ws-max-clock-skew-seconds", Value: uint64(wsauth.DefaultClockSkew / time.Second), Usage: "signed-bearer-token: how far clocks may differ, in `SECONDS`"},
			&cli.BoolFlag{Name: "allow-unauthenticated-bind", Usage: "let anybody in on an address that is not loopback"},
			&cli.DurationFlag{Name: "session-ttl", Value: execserver.DefaultSessionTTL, Usage: "how long a lost connection's session can be resumed; 0: it ends at once"},
			&cli.IntFlag{Name: "max-connections", Value: execserver.DefaultMaxConnections, Usage: "connections at a time"},
			&cli.IntFlag{Name: "max-processes", Value: execserver.DefaultMaxProcesses, Usage: "processes of a session at a time"},
			&cli.IntFlag{Name: "max-handles", Value: execserver.DefaultMaxHandles, Usage: "open file handles of a connection"},
			&cli.IntFlag{Name: "max-message-bytes", Value: transport.DefaultMaxMessage, Usage: "size of an incoming websocket message"},
			&cli.IntFlag{Name: "concurrent-requests", Value: execserver.DefaultConcurrentRequests, Usage: "requests of a connection in work at a time"},
			&cli.BoolFlag{Name: "exit-on-stdin-close", EnvVars: []string{"CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE"}, Usage: "end when stdin does, as when the parent has ended"},
			&cli.StringFlag{Name: "sandbox-backend", Value: sandbox.Backends[0], Usage: "what confines commands: " + strings.Join(sandbox.Backends, ", ") + " (`NAME`)"},
			&cli.BoolFlag{Name: "sandbox-stricter", Usage: "let Landlock enforce more than was asked for, where it cannot be exact, instead of refusing"},
			&cli.BoolFlag{Name: "no-cgroups", Usage: "do not give each process a cgroup of its own"},
		}...), logFlags()...),
		Action: func(c *cli.Context) error { return runExecServer(c, s) },
	}
}

// runExecServer runs the server until its input, a signal or its listener
// ends it.
func runExecServer(c *cli.Context, s streams) error {
	if c.Args().Present() {
		return usagef("exec-server takes no arguments, got %q; see codex exec-server --help", c.Args().First())
	}
	if err := checkRemote(c); err != nil {
		return err
	}
	if err := refuseRootFlags(c); err != nil {
		return err
	}
	if c.IsSet("remote") {
		return register(c)
	}
	// Nothing in config.toml is for a server that listens.
	if isStrict(c) {
		if _, err := loadConfig(c); err != nil {
			return err
		}
	}
	log, err := newLogger(c, s.err)
	if err != nil {
		return err
	}
	where, err := parseListen(c.String("listen"))
	if err != nil {
		return err
	}
	opts, err := serverOptions(c, log)
	if err != nil {
		return err
	}
	var listener net.Listener
	if !where.stdio {
		if !where.addr.Addr().IsLoopback() && opts.Auth == nil && !c.Bool("allow-unauthenticated-bind") {
			return fmt.Errorf("--listen %s is not a loopback address: whoever reaches it could run commands as this user; add --ws-auth, or --allow-unauthenticated-bind if that is what you want", c.String("listen"))
		}
		listener, err = net.Listen("tcp", where.addr.String())
		if err != nil {
			return listenError(where.addr, err)
		}
	}
	if err := process.UnblockSignals(); err != nil {
		return err
	}
	aliases := makeAliases(s.err)
	defer removeAliases(aliases, s.err)
	srv, err := execserver.New(opts)
	if err != nil {
		return err
	}
	return serve(c, s, srv, listener, log, func() { cleanUpAliases(aliases, s.err) })
}

// selfExe is the program that serves this machine, which is this one; empty:
// it cannot be found.
func selfExe() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return self
}

// listenError says what to do when the port cannot be had.
func listenError(addr netip.AddrPort, err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err // without the address, which the message has
	}
	hint := ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		hint = "; something listens there already: choose another port, or 0 for any free one"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		hint = "; this machine does not have that address"
	case errors.Is(err, syscall.EACCES):
		hint = "; ports below 1024 are for root"
	}
	return fmt.Errorf("listen on %s: %w%s", addr, err, hint)
}

// checkRemote checks the options of a server that registers in place of
// listening, in the words of the reference.
func checkRemote(c *cli.Context) error {
	var missing []string
	for _, flag := range []struct {
		name, shown string
		needed      bool
	}{
		{"environment-id", "--environment-id <ID>", c.IsSet("remote") || c.Bool("use-agent-identity-auth")},
		{"remote", "--remote <URL>", c.Bool("use-agent-identity-auth")},
	} {
		if flag.needed && !c.IsSet(flag.name) {
			missing = append(missing, "  "+flag.shown)
		}
	}
	const usage = "\n\nUsage: codex exec-server --environment-id <ID> --remote <URL>\n\nFor more information, try '--help'."
	switch {
	case c.IsSet("remote") && c.IsSet("listen"):
		return usagef("the argument '--remote <URL>' cannot be used with '--listen <URL>'%s", usage)
	case len(missing) > 0:
		return usagef("the following required arguments were not provided:\n%s%s", strings.Join(missing, "\n"), usage)
	default:
		return nil
	}
}

// register registers at an environment registry.
func register(c *cli.Context) error {
	if _, err := loadConfig(c); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(c.String("environment-id")) == "":
		return &execenv.RegistryConfigError{Message: "environment id is required for remote exec-server registration"}
	case strings.TrimSpace(c.String("remote")) == "":
		return &execenv.RegistryConfigError{Message: "environment registry base URL is required"}
	default:
		return errors.New("--remote: this version cannot register at an environment registry; use --listen")
	}
}

func serverOptions(c *cli.Context, log *slog.Logger) (execserver.Options, error) {
	auth := wsauth.Config{
		Mode: c.String("ws-auth"), TokenFile: c.String("ws-token-file"), TokenSHA256: c.String("ws-token-sha256"),
		SharedSecretFile: c.String("ws-shared-secret-file"), Issuer: c.String("ws-issuer"), Audience: c.String("ws-audience"),
	}
	if c.IsSet("ws-max-clock-skew-seconds") {
		skew := time.Duration(min(c.Uint64("ws-max-clock-skew-seconds"), 1<<30)) * time.Second
		auth.ClockSkew = &skew
	}
	authenticator, err := wsauth.New(auth)
	if err != nil {
		return execserver.Options{}, err
	}
	for _, name := range []string{"max-connections", "max-processes", "max-handles", "max-message-bytes", "concurrent-requests"} {
		if c.Int(name) < 1 {
			return execserver.Options{}, usagef("--%s must be at least 1, not %d", name, c.Int(name))
		}
	}
	if b := c.String("sandbox-backend"); !slices.Contains(sandbox.Backends, b) {
		return execserver.Options{}, usagef("--sandbox-backend %q: there are %s", b, strings.Join(sandbox.Backends, ", "))
	}
	for _, name := range []string{"ws-auth", "ws-token-file", "ws-token-sha256", "ws-shared-secret-file", "ws-issuer", "ws-audience"} {
		if c.IsSet(name) && c.String(name) == "" {
			return execserver.Options{}, usagef("--%s must not be empty; give a value or leave the flag out", name)
		}
	}
	ttl := c.Duration("session-ttl")
	switch {
	case ttl < 0:
		return execserver.Options{}, usagef("--session-ttl must not be negative; 0 ends a session with its connection")
	case ttl == 0:
		ttl = -1
	}
	opts := execserver.Options{
		Logger: log, Version: version(), SessionTTL: ttl, Auth: authenticator,
		MaxConnections: c.Int("max-connections"), MaxProcesses: c.Int("max-processes"), MaxHandles: c.Int("max-handles"),
		MaxMessage: c.Int("max-message-bytes"), ConcurrentRequests: c.Int("concurrent-requests"),
		Sandbox: sandbox.Options{Self: true, Backend: c.String("sandbox-backend"), Stricter: c.Bool("sandbox-stricter")},
		Process: process.Options{Subreaper: true, Cgroups: !c.Bool("no-cgroups")},
	}
	if self, err := os.Executable(); err == nil {
		opts.Process.Watchdog = []string{self, WatchdogArg}
	}
	return opts, nil
}

// listenOn is a parsed --listen.
type listenOn struct {
	stdio bool
	addr  netip.AddrPort
}

// parseListen parses ws://IP:PORT or stdio.
func parseListen(url string) (listenOn, error) {
	if url == "stdio" || url == "stdio://" {
		return listenOn{stdio: true}, nil
	}
	rest, ok := strings.CutPrefix(url, "ws://")
	if !ok {
		return listenOn{}, fmt.Errorf("unsupported --listen URL `%s`; expected `ws://IP:PORT` or `stdio`", url)
	}
	addr, err := netip.ParseAddrPort(strings.TrimSuffix(rest, "/"))
	if err != nil {
		return listenOn{}, fmt.Errorf("invalid websocket --listen URL `%s`; expected `ws://IP:PORT`", url)
	}
	return listenOn{addr: addr}, nil
}

// serve runs the server on its listener, or on stdin and stdout, and ends it
// in order. Once it listens it calls listening.
func serve(c *cli.Context, s streams, srv *execserver.Server, listener net.Listener, log *slog.Logger, listening func()) error {
	ctx, stop := context.WithCancelCause(c.Context)
	defer stop(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	signals := make(chan os.Signal, 2)
	asked := []os.Signal{syscall.SIGTERM}
	if !process.InheritedIgnore(syscall.SIGINT) {
		asked = append(asked, syscall.SIGINT)
	}
	signal.Notify(signals, asked...)
	defer signal.Stop(signals)
	ended := make(chan struct{})
	defer close(ended)
	wg.Go(func() { routineSignals(signals, ended, stop, log) })

	var err error
	if listener == nil {
		listening()
		err = serveStdio(ctx, s, srv)
	} else {
		if c.Bool("exit-on-stdin-close") {
			// Reading stdin cannot be interrupted, so this one is not waited
			// for.
			go func() {
				_, _ = io.Copy(io.Discard, s.in)
				stop(errors.New("stdin closed"))
			}()
		}
		if _, err := fmt.Fprintf(s.out, "ws://%s\n", listener.Addr()); err != nil {
			_ = listener.Close()
			return fmt.Errorf("print the URL: %w", err)
		}
		log.Info("listening", "url", "ws://"+listener.Addr().String(), "pid", strconv.Itoa(os.Getpid()))
		listening()
		err = srv.Serve(ctx, listener)
	}
	if cause := context.Cause(ctx); cause != nil {
		log.Info("shutting down", "reason", cause)
	}
	bound, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if e := srv.Shutdown(bound); e != nil {
		log.Warn("not everything ended in time", "error", e)
	}
	if errors.Is(err, execserver.ErrServerClosed) {
		return nil
	}
	return err
}

// serveStdio serves the one connection that stdin and stdout are.
func serveStdio(ctx context.Context, s streams, srv *execserver.Server) error {
	done := make(chan error, 1)
	go func() { done <- srv.ServeConn(transport.NewStdio(s.in, s.out, 0)) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return nil // Shutdown ends the connection
	}
}

// routineSignals ends the server in order at the first signal and at once at
// the second.
func routineSignals(signals <-chan os.Signal, ended <-chan struct{}, stop context.CancelCauseFunc, log *slog.Logger) {
	select {
	case sig := <-signals:
		stop(fmt.Errorf("received %v", sig))
	case <-ended:
		return
	}
	select {
	case sig := <-signals:
		log.Warn("ending at once", "signal", sig.String())
		os.Exit(exitFailed)
	case <-ended:
	}
}
