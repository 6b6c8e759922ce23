package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/peercred"
	"codex.internal/pkg/sandbox/egress"
)

// forwarder has listeners here and on the server, and copies data between their connections. close
// ends it.
type forwarder struct {
	client *execclient.Client
	errs   io.Writer
	// If inside is not nil, ports without a host lead into the sandbox of the process that it
	// returns. It returns an error if the process has not started.
	inside func() (string, error)

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu   sync.Mutex
	open map[io.Closer]bool // listeners and connections; nil after close
}

func newForwarder(ctx context.Context, client *execclient.Client, errs io.Writer) *forwarder {
	f := &forwarder{client: client, errs: errs, open: make(map[io.Closer]bool)}
	f.ctx, f.cancel = context.WithCancel(ctx)
	return f
}

// close closes all listeners and connections, and waits for their goroutines.
func (f *forwarder) close() {
	f.cancel()
	f.mu.Lock()
	open := f.open
	f.open = nil
	f.mu.Unlock()
	for c := range open {
		_ = c.Close()
	}
	f.wg.Wait()
}

// keep registers c to be closed by close. If the forwarder is closed already, it closes c and
// returns false.
func (f *forwarder) keep(c io.Closer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		_ = c.Close()
		return false
	}
	f.open[c] = true
	return true
}

func (f *forwarder) forget(c io.Closer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, c)
}

// listenHere listens on this machine: on the loopback addresses of both families, unless at
// has a host. All returned listeners have the same port.
func listenHere(ctx context.Context, at endpoint) ([]net.Listener, error) {
	host := at.host
	if host == "*" {
		host = ""
	}
	var config net.ListenConfig
	if at.host != "" && at.host != "localhost" {
		l, err := config.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(at.port))))
		return []net.Listener{l}, listenError(at, err)
	}
	l, err := config.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(at.port))))
	if err != nil {
		return nil, listenError(at, err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l6, err := config.Listen(ctx, "tcp6", net.JoinHostPort("::1", strconv.Itoa(port)))
	switch {
	case err == nil:
		return []net.Listener{l, l6}, nil
	case at.port != 0 && errors.Is(err, cmdutil.ErrAddressInUse):
		// Another program has the port on the other address. Connections to localhost could reach
		// that program.
		_ = l.Close()
		return nil, listenError(at, err)
	default:
		return []net.Listener{l}, nil // this machine has no IPv6
	}
}

func listenError(at endpoint, err error) error {
	if err == nil {
		return nil
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return fmt.Errorf("listen on %s: %w", at, err)
}

// serve accepts connections and serves each in a goroutine.
func (f *forwarder) serve(l net.Listener, name string, one func(net.Conn) error) {
	if !f.keep(l) {
		return
	}
	f.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				if f.ctx.Err() == nil && f.client.Err() == nil && !errors.Is(err, net.ErrClosed) {
					cmdutil.Messagef(f.errs, "codex: %s: %v\n", name, err)
				}
				return
			}
			f.wg.Go(func() {
				if !f.keep(conn) {
					return
				}
				defer f.forget(conn)
				defer conn.Close()
				if err := one(conn); err != nil && f.ctx.Err() == nil {
					cmdutil.Messagef(f.errs, "codex: %s: %v\n", name, err)
				}
			})
		}
	})
}

// local forwards a port of this machine, and returns the port that it listens on.
func (f *forwarder) local(x forwarding) (port uint16, err error) {
	listeners, err := listenHere(f.ctx, x.listen)
	if err != nil {
		return 0, err
	}
	for _, l := range listeners {
		f.serve(l, l.Addr().String(), func(conn net.Conn) error { return f.join(conn, x.to.target()) })
	}
	return uint16(listeners[0].Addr().(*net.TCPAddr).Port), nil
}

// join opens a tunnel for a connection and copies data both ways.
func (f *forwarder) join(conn net.Conn, to execclient.TunnelTarget) error {
	t, err := f.openTunnel(to)
	if err != nil {
		reset(conn)
		return err
	}
	// An error here means that one of the two programs ended early. The other one reports that. The
	// command itself reports that the server is lost.
	_ = t.Join(conn)
	return nil
}

// openTunnel opens a tunnel. If the target is a port without a host, the tunnel leads into the command's sandbox
// if the sandbox has a network of its own. If the target is a path, it leads into the sandbox if there is one.
func (f *forwarder) openTunnel(to execclient.TunnelTarget) (*execclient.Tunnel, error) {
	if f.inside == nil || to.Host != "" || to.Path != "" && !f.client.Has(execproto.ExtensionTunnelProcessPath) {
		return f.client.OpenTunnel(f.ctx, to)
	}
	in := to
	var err error
	if in.ProcessID, err = f.inside(); err != nil {
		return nil, err
	}
	t, err := f.client.OpenTunnel(f.ctx, in)
	var failed *execclient.TunnelError
	if errors.As(err, &failed) && failed.Failure == execproto.TunnelNoNetwork {
		return f.client.OpenTunnel(f.ctx, to)
	}
	return t, err
}

// reset closes a connection so that its other end gets an error.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// remote forwards a port of the server.
func (f *forwarder) remote(x forwarding) (net.Addr, error) {
	host := x.listen.host
	switch host {
	case "*":
		host = "::"
	case "localhost":
		host = ""
	}
	l, err := f.client.Listen(f.ctx, host, x.listen.port)
	if err != nil {
		return nil, err
	}
	f.serve(l, fmt.Sprintf("port %d of the server", l.Addr().(*net.TCPAddr).Port), func(conn net.Conn) error {
		d := net.Dialer{Control: peercred.Carried}
		network, to := "tcp", x.to.String()
		if x.to.path != "" {
			network = "unix"
		}
		near, err := d.DialContext(f.ctx, network, to)
		if err != nil {
			var op *net.OpError
			if errors.As(err, &op) {
				err = op.Err
			}
			_ = conn.(*execclient.Tunnel).Abort("connection refused by the client")
			return fmt.Errorf("connect to %s: %w", to, err)
		}
		if !f.keep(near) {
			return nil
		}
		defer f.forget(near)
		_ = conn.(*execclient.Tunnel).Join(near)
		return nil
	})
	return l.Addr(), nil
}

// dynamic listens on a port of this machine as a SOCKS5 proxy. The server makes the connections of
// the proxy.
func (f *forwarder) dynamic(at endpoint) (port uint16, err error) {
	listeners, err := listenHere(f.ctx, at)
	if err != nil {
		return 0, err
	}
	for _, l := range listeners {
		f.serve(l, l.Addr().String(), f.socks)
	}
	return uint16(listeners[0].Addr().(*net.TCPAddr).Port), nil
}

// socks serves one connection of the SOCKS5 proxy.
func (f *forwarder) socks(conn net.Conn) error {
	r := bufio.NewReader(conn)
	host, port, reply, err := egress.AcceptSOCKS(conn, r)
	if err != nil {
		return nil // the client got a reply, or does not speak SOCKS5
	}
	t, err := f.client.OpenTunnel(f.ctx, execclient.TunnelTarget{Host: host, Port: port})
	if err != nil {
		_ = reply(socksOutcome(err))
		return err
	}
	if err := reply(egress.SOCKSConnected); err != nil {
		return t.Abort("the program has ended")
	}
	_ = t.Join(&buffered{conn.(*net.TCPConn), r})
	return nil
}

// socksOutcome returns the SOCKS reply for an error when a tunnel was opened.
func socksOutcome(err error) egress.SOCKSOutcome {
	var failed *execclient.TunnelError
	if !errors.As(err, &failed) {
		return egress.SOCKSFailed
	}
	switch failed.Failure {
	case execproto.TunnelRefused:
		return egress.SOCKSNoService
	case execproto.TunnelUnknownHost, execproto.TunnelTimedOut:
		return egress.SOCKSNoHost
	case execproto.TunnelUnreachable:
		return egress.SOCKSNoNetwork
	case execproto.TunnelDenied:
		return egress.SOCKSDenied
	default:
		return egress.SOCKSFailed
	}
}

// buffered is a connection from which some bytes were read ahead.
type buffered struct {
	*net.TCPConn
	r *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.r.Read(p) }
