package execserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/sandbox/egress"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/wire/logtext"
	"codex.internal/pkg/wire/pathuri"
	"codex.internal/pkg/wire/tunnel"
)

// tunnelTarget is where a tunnel leads.
type tunnelTarget struct {
	host string // "" with a path
	port uint16
	path string // of a Unix socket; "": host and port

	inside *proc // the process into whose sandbox it leads; nil: none
	// detached is a detached process of the owner into whose sandbox it leads; "": none.
	detached, owner string
}

// processID is the id of the process into whose sandbox the tunnel leads.
func (t tunnelTarget) processID() string {
	if t.inside == nil {
		return t.detached
	}
	return t.inside.id
}

func (t tunnelTarget) String() string {
	if t.path != "" {
		return logtext.Clip(t.path, maxTunnelHost)
	}
	return net.JoinHostPort(t.host, strconv.Itoa(int(t.port)))
}

// tunnelTarget checks the params of a tunnel/open.
func (c *conn) tunnelTarget(p *execproto.TunnelOpenParams) (to tunnelTarget, err error) {
	switch {
	case p.TunnelID%2 == 0:
		return to, execproto.InvalidParams("tunnelId must be odd: even ones are the server's")
	case p.Window == 0:
		return to, execproto.InvalidParams("window must be more than 0")
	case p.Path != "" && (p.Host != "" || p.Port != 0):
		return to, execproto.InvalidParams("a tunnel has a path, or a host and a port, not both")
	case p.Path == "" && p.Port == 0:
		return to, execproto.InvalidParams("a tunnel needs a port, or the path of a socket")
	case len(p.Host) > maxTunnelHost:
		return to, execproto.InvalidParams(fmt.Sprintf("host must not exceed %d bytes", maxTunnelHost))
	}
	to = tunnelTarget{host: p.Host, port: p.Port}
	if to.host == "" && p.Path == "" {
		to.host = "localhost"
	}
	if p.ProcessID == "" && p.Session != "" {
		return to, execproto.InvalidParams("session is for a tunnel into the sandbox of a process: it needs processId")
	}
	if p.ProcessID != "" {
		return to, c.targetInside(&to, p)
	}
	if p.Path != "" {
		to.path, err = pathuri.Parse(p.Path, c.srv.home)
	}
	return to, err
}

// deniedError is the error of a target that the server's owner does not permit.
type deniedError struct{ why string }

func (e *deniedError) Error() string { return e.why }

// dial connects to the target of a tunnel. Of many connections at a time some wait for
// their turn.
func (t *tunnels) dial(ctx context.Context, c *conn, to tunnelTarget) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	select {
	case t.dialing <- struct{}{}:
		defer func() { <-t.dialing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, done := context.WithTimeout(ctx, tunnelDialTime)
	defer done()
	switch {
	case to.inside != nil:
		return to.inside.dialInside(ctx, to)
	case to.detached != "":
		return c.srv.dialDetached(ctx, to, c.grant.Ceiling)
	}
	if to.path != "" {
		var d net.Dialer
		return d.DialContext(ctx, "unix", to.path)
	}
	return dialTCP(ctx, c.srv.opts.EgressPolicy, to)
}

// dialTCP connects to a host that the ceiling permits. The name is judged before it is
// resolved, and each address before it is connected to.
func dialTCP(ctx context.Context, ceiling *egress.Ceiling, to tunnelTarget) (net.Conn, error) {
	if err := ceiling.PermitsTunnel(to.host, to.port); err != nil {
		return nil, &deniedError{err.Error()}
	}
	dialer := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err == nil {
			err = ceiling.PermitsAddress(at, to.host)
		}
		if err != nil {
			return &deniedError{err.Error()}
		}
		return nil
	}}
	return dialer.DialContext(ctx, "tcp", to.String())
}

// failures are the kinds of the errors of the system.
var failures = []struct {
	err  error
	kind execproto.TunnelFailure
}{
	{syscall.ECONNREFUSED, execproto.TunnelRefused},
	{syscall.ENETUNREACH, execproto.TunnelUnreachable},
	{syscall.EHOSTUNREACH, execproto.TunnelUnreachable},
	{syscall.ETIMEDOUT, execproto.TunnelTimedOut},
	{syscall.EADDRINUSE, execproto.TunnelInUse},
	{syscall.EACCES, execproto.TunnelDenied},
	{syscall.EPERM, execproto.TunnelDenied},
	{runner.ErrNoNetwork, execproto.TunnelNoNetwork},
	{runner.ErrNotReady, execproto.TunnelRefused},
	{runner.ErrForeignSocket, execproto.TunnelDenied},
	{os.ErrProcessDone, execproto.TunnelEnded},
	{os.ErrDeadlineExceeded, execproto.TunnelTimedOut},
	{context.DeadlineExceeded, execproto.TunnelTimedOut},
}

// failureOf says for programs and for people why a connection could not be made.
func failureOf(err error) (kind execproto.TunnelFailure, reason string) {
	var denied *deniedError
	var dns *net.DNSError
	var network net.Error
	var elsewhere *execclient.TunnelError // of a keeper
	switch {
	case errors.As(err, &elsewhere):
		return elsewhere.Failure, elsewhere.Reason
	case errors.As(err, &denied):
		return execproto.TunnelDenied, denied.why
	case errors.As(err, &dns) && dns.IsNotFound:
		return execproto.TunnelUnknownHost, "no such host"
	case errors.As(err, &network) && network.Timeout():
		return execproto.TunnelTimedOut, "timed out"
	}
	for _, f := range failures {
		if errors.Is(err, f.err) {
			return f.kind, tunnel.Reason(err)
		}
	}
	return execproto.TunnelFailed, tunnel.Reason(err)
}
