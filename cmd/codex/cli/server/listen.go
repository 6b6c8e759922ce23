package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/wire/websocket"
	"github.com/urfave/cli/v2"
)

// maxListeners bounds the number of --listen options: a machine has few addresses, and all
// listeners share the limit of clients that are not authenticated yet.
const maxListeners = 16

// listenFront returns the front of a server that listens on the address of each --listen.
func listenFront(c *cli.Context, s cmdutil.Streams, opts execserver.Options, log *slog.Logger) (front, error) {
	// A server that listens uses no setting of config.toml. With --strict-config the file is only
	// checked.
	if cmdutil.IsStrict(c) {
		if _, err := cmdutil.LoadConfig(c); err != nil {
			return front{}, err
		}
	}
	if cmdutil.IsSet(c, "environment-id") {
		log.Warn("--environment-id is for --remote, which is missing: this server registers nowhere")
	}
	addresses, err := parseListeners(c.StringSlice("listen"))
	if err != nil {
		return front{}, err
	}
	if addresses[0].stdio {
		return front{stdin: true, serve: func(ctx context.Context, srv *execserver.Server, ready func()) error {
			ready()
			return serveStdio(ctx, s, srv)
		}}, nil
	}
	files, err := tlsFiles(c)
	if err != nil {
		return front{}, err
	}
	var config *tls.Config
	if slices.ContainsFunc(addresses, func(a listenOn) bool { return a.tls }) {
		if config, err = files.Server(log); err != nil {
			return front{}, err
		}
	}
	f := listening{addresses: addresses}
	for i := range addresses {
		where := &addresses[i]
		where.rules = portRules{tokens: opts.Auth != nil, anyPeer: c.Bool("allow-unauthenticated-bind")}
		if where.tls {
			where.rules.tls, where.rules.certificates = config, files.ClientCA != ""
		}
		if err := where.check(); err != nil {
			return front{}, err
		}
	}
	return front{listen: f.listen, close: f.close, serve: func(ctx context.Context, srv *execserver.Server, ready func()) error {
		return f.serve(ctx, s, srv, log, ready)
	}}, nil
}

// portRules are the requirements for clients of a port.
type portRules struct {
	tls          *tls.Config // nil: connections are not encrypted
	certificates bool        // clients must present a certificate
	tokens       bool        // clients must present a token
	anyPeer      bool        // --allow-unauthenticated-bind
}

// listening are the listeners of a server.
type listening struct {
	addresses []listenOn
	listeners []execserver.Listener
	urls      []string // one for each listener
}

// listen takes all addresses, or none.
func (f *listening) listen(ctx context.Context) error {
	for _, where := range f.addresses {
		if err := f.add(ctx, where); err != nil {
			_ = f.close()
			return err
		}
	}
	return nil
}

// add listens on an address, and adds the listener.
func (f *listening) add(ctx context.Context, where listenOn) error {
	var l execserver.Listener
	var url string
	var err error
	if where.socket != "" {
		url = "unix://" + where.socket
		if l.Listener, err = websocket.ListenUnix(ctx, where.socket); err != nil {
			return fmt.Errorf("listen on %s: %w", url, cmdutil.WithoutAddress(err))
		}
	} else {
		if l, err = listenPort(ctx, where); err != nil {
			return err
		}
		url = where.scheme() + l.Addr().String()
	}
	f.listeners, f.urls = append(f.listeners, l), append(f.urls, url)
	return nil
}

// check returns an error if clients could not be told apart on a port that others can reach, if the
// directory of a Unix socket does not exist, or if this machine does not have the IP address.
func (l *listenOn) check() error {
	if l.socket != "" {
		if _, err := os.Stat(filepath.Dir(l.socket)); err != nil {
			return fmt.Errorf("--listen %s: %w", l.text, err)
		}
		return nil
	}
	if !l.addr.Addr().IsLoopback() && !l.rules.tokens && !l.rules.certificates && !l.rules.anyPeer {
		return fmt.Errorf("--listen %s is not a loopback address: anybody who can connect to it could run commands as this user; "+
			"add --ws-auth, or --allow-unauthenticated-bind if that is what you want", l.text)
	}
	return cmdutil.CheckAddress(l.addr)
}

// listenPort listens on a TCP port.
func listenPort(ctx context.Context, where listenOn) (execserver.Listener, error) {
	loopback := where.addr.Addr().IsLoopback()
	var config net.ListenConfig
	if loopback {
		config.SetMultipathTCP(false) // the network has only one path, and the check whether the kernel supports Multipath TCP takes 70 microseconds
	}
	l, err := config.Listen(ctx, cmdutil.Family(where.addr), where.addr.String())
	if err != nil {
		return execserver.Listener{}, cmdutil.ListenError(where.addr, err)
	}
	return execserver.Listener{Listener: l, TLS: where.rules.tls, AnyPeer: where.rules.anyPeer && !loopback}, nil
}

// close closes the listeners.
func (f *listening) close() error {
	var errs []error
	for _, l := range f.listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// serve prints the URLs and accepts clients.
func (f *listening) serve(ctx context.Context, s cmdutil.Streams, srv *execserver.Server, log *slog.Logger, ready func()) error {
	for _, url := range f.urls {
		if _, err := fmt.Fprintln(s.Out, url); err != nil {
			_ = f.close()
			return fmt.Errorf("print the URL: %w", err)
		}
		log.Info("listening", "url", url, "pid", os.Getpid())
	}
	ready()
	// The first client would wait for this probe, too.
	if err := srv.CheckSandbox(); err != nil {
		log.Warn("commands cannot be confined here: requests with a sandbox are refused; codex doctor says what is missing", "error", err)
	}
	return srv.ServeListeners(ctx, f.listeners)
}

// tlsFiles returns the files that the options name, and checks that --listen has an address that
// uses them.
func tlsFiles(c *cli.Context) (cmdutil.TLSFiles, error) {
	files, err := cmdutil.CheckTLSFiles(c.String("tls-cert"), c.String("tls-key"), c.String("tls-client-ca"))
	urls := c.StringSlice("listen")
	first := slices.IndexFunc(urls, isEncrypted)
	encrypted := !cmdutil.IsSet(c, "remote") && first >= 0
	switch {
	case err != nil:
		return files, err
	case encrypted && files.Cert == "":
		return files, cmdutil.Usagef("--listen %s needs --tls-cert and --tls-key", urls[first])
	case !encrypted && files.Cert != "":
		return files, cmdutil.Usagef("--tls-cert is for --listen wss://IP:PORT")
	}
	return files, nil
}

// isEncrypted reports whether the URL of a --listen uses TLS.
func isEncrypted(url string) bool { return strings.HasPrefix(url, "wss://") }

// listenOn is a parsed --listen.
type listenOn struct {
	text   string
	stdio  bool
	socket string // the path of a Unix socket; empty: not a Unix socket
	addr   netip.AddrPort
	tls    bool // the port uses TLS
	rules  portRules
}

// scheme returns the scheme of a port's URL.
func (l *listenOn) scheme() string {
	if l.tls {
		return "wss://"
	}
	return "ws://"
}

// parseListeners parses every --listen.
func parseListeners(urls []string) ([]listenOn, error) {
	if len(urls) > maxListeners {
		return nil, cmdutil.Usagef("--listen may be given at most %d times, not %d", maxListeners, len(urls))
	}
	var list []listenOn
	for _, url := range urls {
		where, err := parseListen(url)
		if err != nil {
			return nil, err
		}
		where.text = url
		if where.stdio && len(urls) > 1 {
			return nil, cmdutil.Usagef("--listen %s cannot be used with another --listen: it serves the one client that started the server", url)
		}
		list = append(list, where)
	}
	return list, nil
}

// listenForms is the advice on a URL of --listen. The errors have the text of Codex CLI, which names only some forms.
const listenForms = "--listen takes ws://IP:PORT or wss://IP:PORT (port 0: any free one), unix:///PATH or stdio"

// addressHint returns the advice on a URL of --listen without a valid address and port.
func addressHint(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	host, port, err := net.SplitHostPort(strings.TrimSuffix(rest, "/"))
	if err != nil || host == "" {
		return listenForms
	}
	if strings.EqualFold(host, "localhost") {
		return fmt.Sprintf("--listen takes an address, not a name: %s://127.0.0.1:%s", scheme, port)
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return "--listen takes an address of this machine, not a name; ip address shows them"
	}
	return listenForms
}

// parseListen parses ws://IP:PORT, wss://IP:PORT, unix:///PATH or stdio.
func parseListen(url string) (listenOn, error) {
	if url == "stdio" || url == "stdio://" {
		return listenOn{stdio: true}, nil
	}
	if path, ok := strings.CutPrefix(url, "unix://"); ok {
		if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
			return listenOn{}, fmt.Errorf("invalid --listen URL `%s`; expected `unix://` and an absolute path", url)
		}
		return listenOn{socket: filepath.Clean(path)}, nil
	}
	rest, encrypted := strings.CutPrefix(url, "wss://")
	rest, plain := strings.CutPrefix(rest, "ws://")
	if encrypted == plain {
		return listenOn{}, cmdutil.WithAdvice(fmt.Errorf("unsupported --listen URL `%s`; expected `ws://IP:PORT` or `stdio`", url), listenForms)
	}
	addr, err := netip.ParseAddrPort(strings.TrimSuffix(rest, "/"))
	if err != nil {
		return listenOn{}, cmdutil.WithAdvice(fmt.Errorf("invalid websocket --listen URL `%s`; expected `ws://IP:PORT`", url), addressHint(url))
	}
	return listenOn{addr: addr, tls: encrypted}, nil
}
