package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/wire/websocket"
	"github.com/urfave/cli/v2"
)

const (
	// forwardDialTime bounds the time to connect to the destination: the client waits 10 s for its
	// first answer.
	forwardDialTime = 8 * time.Second

	// forwardPing is the interval of pings to the destination, the same as for other servers.
	forwardPing = 30 * time.Second
)

func forwardCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name:  "forward",
		Usage: "register a server that listens elsewhere, and forward connections to it",
		Description: `Registers at an environment registry, such as a codex rendezvous, as
codex exec-server --remote does, but runs no commands itself: for each client it
opens a connection to the server at --connect, and forwards messages in both
directions. So clients can find any server that speaks the protocol over a websocket by
its --environment-id.

This program connects to the server when a client comes. If it cannot, it reports the
error to that client and goes on. The registry decides who may connect; this program
sends no token to the server.

Example:
   codex exec-server forward --remote https://meet.example:8766 \
      --environment-id box --connect ws://127.0.0.1:8765`,
		Flags: append(append(append(cmdutil.ConfigFlags(),
			&cli.StringFlag{Name: "connect", Usage: "the server's `URL`: ws://HOST:PORT, wss://HOST:PORT or unix:///PATH"}, transparentTCPFlag()),
			remoteFlags()...), cmdutil.LogFlags()...),
		Action: func(c *cli.Context) error { return runForward(c, s) },
	}
}

// runForward registers, and forwards streams until a signal arrives.
func runForward(c *cli.Context, s cmdutil.Streams) error {
	if err := process.UnblockSignals(); err != nil {
		return err
	}
	if err := checkForward(c); err != nil {
		return err
	}
	if err := cmdutil.RefuseRootFlags(c); err != nil {
		return err
	}
	log, err := cmdutil.NewLogger(c, s.Err)
	if err != nil {
		return err
	}
	r, err := newRegistrar(c, s, log)
	if err != nil {
		return err
	}
	to := forwarder{url: c.String("connect"), r: r, log: log}
	defer cmdutil.OnHangup(func() { log.Info("a forwarder has no options that it can read again") })()
	return untilAsked(c, s, false, log, func(ctx context.Context) error {
		defer logEnd(ctx, log)
		return r.serve(ctx, func() {}, func(client websocket.Transport) { to.pass(ctx, client) })
	})
}

// checkForward checks the options. Its errors use the words of Codex CLI.
func checkForward(c *cli.Context) error {
	if c.Args().Present() {
		return cmdutil.Usagef("forward takes no arguments, got %q; see codex exec-server forward --help", c.Args().First())
	}
	const usage = "\n\nUsage: codex exec-server forward --remote <URL> --environment-id <ID> --connect <URL>\n\nFor more information, try '--help'."
	if err := checkRegistration(c, usage, neededFlag{"remote", "URL"}, neededFlag{"environment-id", "ID"}, neededFlag{"connect", "URL"}); err != nil {
		return err
	}
	address := c.String("connect")
	if path, ok := websocket.SocketPath(address); ok && path != "" {
		return nil
	}
	if u, err := url.Parse(address); err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Host == "" || u.User != nil {
		return fmt.Errorf("unsupported --connect URL `%s`; expected `ws://HOST:PORT`, `wss://HOST:PORT` or `unix:///PATH`",
			websocket.PublicURL(address))
	}
	return nil
}

// forwarder passes the streams of clients on to a server.
type forwarder struct {
	url string
	r   *registrar
	log *slog.Logger
}

// pass opens a connection to the server, and passes messages in both directions until client, server or ctx ends
// it.
func (f *forwarder) pass(ctx context.Context, client websocket.Transport) {
	server, err := websocket.Dial(ctx, f.url, websocket.DialOptions{
		Options: websocket.Options{Ping: forwardPing},
		TLS:     f.r.tls, Timeout: forwardDialTime,
	})
	if err != nil {
		f.log.Warn("no connection to the server", "client", client.Peer(), "error", err)
		_ = client.Abort()
		return
	}
	f.log.Debug("client connected", "client", client.Peer())
	f.log.Debug("client disconnected", "client", client.Peer(), "reason", websocket.Splice(client, server))
}

// remoteFlags are the options for registering.
func remoteFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "remote", Usage: "register at the environment registry at `URL` instead of listening"},
		&cli.StringFlag{Name: "environment-id", Usage: "with --remote: the `ID` by which clients find this server"},
		&cli.StringFlag{
			Name:  "name",
			Usage: "with --remote: show `NAME` on the status page of codex rendezvous instead of the host name",
		},
		&cli.BoolFlag{Name: "no-description", Usage: "with --remote: do not send the name of this machine and the version to codex rendezvous"},
		&cli.StringFlag{Name: "rendezvous-token-file", Usage: "with --remote: register with the token in `FILE`, which is read again if the service refuses the token"},
		&cli.BoolFlag{Name: "use-agent-identity-auth", Usage: "with --remote: sign in as the agent whose token is in CODEX_ACCESS_TOKEN"},
		&cli.BoolFlag{Name: "registration-bearer-stdin", Usage: "with --remote: sign in with the bearer token in the first line of standard input"},
	}
}
