package tunnels

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
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/host/peercred"
	"codex.internal/pkg/sandbox/egress"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/wire/logtext"
	"codex.internal/pkg/wire/pathuri"
	"codex.internal/pkg/wire/tunnel"
)

// Target is the target of a tunnel.
type Target struct {
	Host string // "" if Path is set
	Port uint16
	Path string // path of a Unix socket; "": the target is Host and Port

	inside    Process // the process into whose sandbox the tunnel leads; nil: none
	processID string
}

// Process is a process into whose sandbox tunnels lead.
type Process interface {
	// Dial connects to a target, resolved in the process's sandbox. The error wraps
	// runner.ErrNoNetwork if the process has no network of its own, and os.ErrProcessDone if it
	// has ended.
	Dial(ctx context.Context, to Target) (net.Conn, error)
}

func (t Target) String() string {
	if t.Path != "" {
		return logtext.Clip(t.Path, maxHost)
	}
	return net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port)))
}

// seen describes a tunnel to the target for observers.
func (t Target) seen(c Conn) observe.Tunnel {
	return observe.Tunnel{Session: c.Session(), Host: t.Host, Port: t.Port, Path: t.Path, Process: t.processID}
}

// target checks the params of a tunnel/open.
func (srv *Server) target(c Conn, p *execproto.TunnelOpenParams) (to Target, err error) {
	switch {
	case p.TunnelID%2 == 0:
		return to, execproto.InvalidParams("tunnelId must be odd: even ones are the server's")
	case p.Window == 0:
		return to, execproto.InvalidParams("window must be more than 0")
	case p.Path != "" && (p.Host != "" || p.Port != 0):
		return to, execproto.InvalidParams("a tunnel has a path, or a host and a port, not both")
	case p.Path == "" && p.Port == 0:
		return to, execproto.InvalidParams("a tunnel needs a port, or the path of a socket")
	case len(p.Host) > maxHost:
		return to, execproto.InvalidParams(fmt.Sprintf("host must not exceed %d bytes", maxHost))
	}
	to = Target{Host: p.Host, Port: p.Port}
	if to.Host == "" && p.Path == "" {
		to.Host = "localhost"
	}
	if p.ProcessID == "" && p.Session != "" {
		return to, execproto.InvalidParams("session is for a tunnel into the sandbox of a process: it needs processId")
	}
	if p.ProcessID != "" {
		return to, to.lead(c, p)
	}
	if p.Path != "" {
		to.Path, err = pathuri.Parse(p.Path, srv.Home)
	}
	return to, err
}

// Denied returns the error of a target that the server's owner does not permit.
func Denied(why string) error { return &deniedError{why} }

type deniedError struct{ why string }

func (e *deniedError) Error() string { return e.why }

// dial connects to the target of a tunnel. If too many attempts run, it waits.
func (t *Tunnels) dial(ctx context.Context, to Target) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	select {
	case t.dialing <- struct{}{}:
		defer func() { <-t.dialing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, done := context.WithTimeout(ctx, dialTime)
	defer done()
	switch {
	case to.inside != nil:
		return to.inside.Dial(ctx, to)
	case to.Path != "":
		d := net.Dialer{Control: peercred.Carried}
		return d.DialContext(ctx, "unix", to.Path)
	default:
		return dialTCP(ctx, t.srv.Ceiling(), to)
	}
}

// dialTCP connects to a host that the ceiling permits. It checks the name before it resolves
// the name, and each address before it connects to the address.
func dialTCP(ctx context.Context, ceiling *egress.Ceiling, to Target) (net.Conn, error) {
	if err := ceiling.PermitsTunnel(to.Host, to.Port); err != nil {
		return nil, &deniedError{err.Error()}
	}
	dialer := net.Dialer{Control: func(network, address string, c syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err == nil {
			err = ceiling.PermitsAddress(at, to.Host)
		}
		if err != nil {
			return &deniedError{err.Error()}
		}
		return peercred.Carried(network, address, c)
	}}
	return dialer.DialContext(ctx, "tcp", to.String())
}

// failures maps errors of the system to failures of the protocol.
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

// failureOf returns the reason for a failed connection, for programs and for people.
func failureOf(err error) (kind execproto.TunnelFailure, reason string) {
	var denied *deniedError
	var dns *net.DNSError
	var network net.Error
	var elsewhere *execclient.TunnelError // error of a keeper
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
