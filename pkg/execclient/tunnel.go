package execclient

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/jsonrpc"
	"codex.internal/pkg/wire/tunnel"
)

// TunnelTarget is the target of a tunnel.
type TunnelTarget struct {
	// Host and Port are resolved on the server's machine. An empty Host is that machine
	// itself.
	Host string
	Port uint16
	// Path is a Unix socket on the server's machine, instead of Host and Port: a file URI or
	// an absolute path.
	Path string
	// ProcessID, if not empty, is a process of this client, or a detached one of its owner,
	// into whose sandbox the tunnel leads. Host must then be empty or a loopback address, and
	// Path is resolved in the process's view. If the process has no network of its own, the
	// error has TunnelNoNetwork: the process then listens on the server's machine.
	ProcessID string
	// Session, if not empty, is the session of ProcessID, as in execproto.Port.
	Session string
}

func (t TunnelTarget) String() string {
	switch {
	case t.Path != "":
		return t.Path
	case t.Host == "":
		return "port " + strconv.Itoa(int(t.Port))
	default:
		return net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port)))
	}
}

// TunnelError is the error of a server that could not open a tunnel or listen.
type TunnelError struct {
	What    string // such as "connect to db:5432"
	Failure execproto.TunnelFailure
	Reason  string // for users, such as "connection refused"
}

func (e *TunnelError) Error() string { return e.What + ": " + e.Reason }

// Tunnel is a connection that the server's machine has made or accepted: a net.Conn whose
// directions can be closed separately. It survives a lost connection of the client if the
// session does, and waits meanwhile.
type Tunnel struct {
	s      *tunnel.Stream
	remote tunnel.Addr
}

var _ net.Conn = (*Tunnel)(nil)

// OpenTunnel connects from the server's machine. The error is a *TunnelError if the server
// could not connect, and ErrUnsupported if it does not support tunnels, or tunnels into
// sandboxes. ctx bounds the opening only.
func (c *Client) OpenTunnel(ctx context.Context, to TunnelTarget) (*Tunnel, error) {
	if err := c.tunnels.prepare(ctx, c); err != nil {
		return nil, err
	}
	if to.ProcessID != "" && !c.Has(execproto.ExtensionTunnelProcess) || to.ProcessID != "" && to.Path != "" && !c.Has(execproto.ExtensionTunnelProcessPath) {
		return nil, ErrUnsupported
	}
	type outcome struct {
		s   *tunnel.Stream
		err error
	}
	answered := make(chan outcome, 1)
	began := c.background(func(life context.Context) {
		s, err := c.openStream(life, to)
		answered <- outcome{s, err}
	})
	if !began {
		return nil, ErrClosed
	}
	select {
	case o := <-answered:
		if o.err != nil {
			return nil, o.err
		}
		return &Tunnel{o.s, tunnel.Addr(to.String())}, nil
	case <-ctx.Done():
		c.background(func(context.Context) {
			if o := <-answered; o.err == nil {
				_ = o.s.Abort("the client has given up")
			}
		})
		return nil, ctx.Err()
	}
}

// openStream opens a tunnel. It is registered first, because data may arrive with the answer.
func (c *Client) openStream(ctx context.Context, to TunnelTarget) (*tunnel.Stream, error) {
	l, err := c.live(ctx)
	if err != nil {
		return nil, err
	}
	s, count := c.tunnels.add(c.ctx, linkCarrier{l})
	raw, err := encode(execproto.MethodTunnelOpen, &execproto.TunnelOpenParams{
		TunnelID: s.ID(), Host: to.Host, Port: to.Port, Path: to.Path, ProcessID: to.ProcessID, Session: to.Session, Window: tunnel.Window,
	})
	var m jsonrpc.Message
	if err == nil {
		m, err = l.call(ctx, execproto.MethodTunnelOpen, raw)
	}
	var r execproto.TunnelOpenResult
	if err == nil {
		err = decodeAnswer(execproto.MethodTunnelOpen, m, &r)
	}
	switch {
	case isDown(err):
		err = &DisconnectedError{Message: ErrClosed.Error()}
	case err == nil && r.Failure != "":
		err = &TunnelError{"connect to " + to.String(), r.Failure, r.Reason}
	case err == nil && !c.tunnels.opened(s, count):
		err = &DisconnectedError{Message: ErrClosed.Error()}
	}
	if err != nil {
		s.Fail(err)
		return nil, err
	}
	s.Open(r.Window)
	return s, nil
}

// Read reads data from the other end; io.EOF after its end.
func (t *Tunnel) Read(b []byte) (int, error) { return t.s.Read(b) }

// Write sends data to the other end. It blocks while the other end does not read.
func (t *Tunnel) Write(b []byte) (int, error) { return t.s.Write(b) }

// CloseWrite closes this direction: the other end reads EOF.
func (t *Tunnel) CloseWrite() error { return t.s.CloseWrite() }

// Close closes both directions. Written data is still sent.
func (t *Tunnel) Close() error { return t.s.Close() }

// Abort closes both directions at once, with a reason for the other end.
func (t *Tunnel) Abort(reason string) error { return t.s.Abort(reason) }

// Join copies between the tunnel and a connection until both directions have ended, and closes
// both. It returns the reason if the tunnel failed.
func (t *Tunnel) Join(conn net.Conn) error { return tunnel.Join(t.s, conn) }

// LocalAddr returns a placeholder for the local address of a tunnel.
func (t *Tunnel) LocalAddr() net.Addr { return t.s.LocalAddr() }

// RemoteAddr returns the target of the tunnel, or the peer of an accepted connection.
func (t *Tunnel) RemoteAddr() net.Addr { return t.remote }

// SetDeadline works as for net.Conn.
func (t *Tunnel) SetDeadline(at time.Time) error { return t.s.SetDeadline(at) }

// SetReadDeadline works as for net.Conn.
func (t *Tunnel) SetReadDeadline(at time.Time) error { return t.s.SetReadDeadline(at) }

// SetWriteDeadline works as for net.Conn.
func (t *Tunnel) SetWriteDeadline(at time.Time) error { return t.s.SetWriteDeadline(at) }

// TunnelListener is a port on the server's machine. Accept returns a *Tunnel for each
// connection to it.
type TunnelListener struct {
	c        *Client
	id       uint64
	at       *net.TCPAddr
	accepted chan *Tunnel
	closed   chan struct{} // closed with the listener
}

var _ net.Listener = (*TunnelListener)(nil)

// Listen listens on a TCP port of the server's machine until Close or the end of the session.
// An empty host means 127.0.0.1, and port 0 any free port. The error is a *TunnelError if the
// server could not listen, and ErrUnsupported if it does not support tunnels.
func (c *Client) Listen(ctx context.Context, host string, port uint16) (*TunnelListener, error) {
	if err := c.tunnels.prepare(ctx, c); err != nil {
		return nil, err
	}
	l := c.tunnels.listen(c)
	var r execproto.TunnelListenResult
	params := execproto.TunnelListenParams{ListenerID: l.id, Host: host, Port: port, Window: tunnel.Window}
	err := c.Call(ctx, execproto.MethodTunnelListen, &params, &r)
	if err == nil && r.Failure != "" {
		err = &TunnelError{fmt.Sprintf("listen on port %d of the server", port), r.Failure, r.Reason}
	}
	if err != nil {
		_ = l.Close() // it may exist, if only the answer was lost
		return nil, err
	}
	l.at = &net.TCPAddr{IP: net.ParseIP(r.Host), Port: int(r.Port)}
	return l, nil
}

// Accept returns the next connection, a *Tunnel.
func (l *TunnelListener) Accept() (net.Conn, error) {
	select {
	case t := <-l.accepted:
		return t, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-l.c.done:
		return nil, l.c.Err()
	}
}

// Addr returns the address on the server's machine.
func (l *TunnelListener) Addr() net.Addr { return l.at }

// Close ends the listening, and waits up to a few seconds for the server. Accepted tunnels
// continue.
func (l *TunnelListener) Close() error {
	if !l.c.tunnels.unlisten(l) {
		return net.ErrClosed
	}
	ctx, cancel := context.WithTimeout(l.c.ctx, lingerTime)
	defer cancel()
	return l.c.Call(ctx, execproto.MethodTunnelUnlisten, &execproto.TunnelListener{ListenerID: l.id}, nil)
}
