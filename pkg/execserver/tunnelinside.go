package execserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/wire/logtext"
	"codex.internal/pkg/wire/pathuri"
)

// errEndedProcess is the error of a tunnel into the sandbox of a process that has ended.
var errEndedProcess = fmt.Errorf("the process has ended: %w", os.ErrProcessDone)

// targetInside completes the target of a tunnel into the sandbox of a process
// (docs/spec/wire.md §11.7). It must be a process of the session, or a detached one of the
// owner, and the address one of the sandbox's loopback: its network has no other.
func (c *conn) targetInside(to *tunnelTarget, p *execproto.TunnelOpenParams) error {
	if p.Path != "" {
		var err error
		if to.path, err = pathuri.Parse(p.Path, ""); err != nil {
			return err
		}
	} else if len(loopbacks(to.host)) == 0 {
		return execproto.InvalidParams("a tunnel into the sandbox of a process leads to localhost or a loopback address: its network has no other")
	}
	session := c.session
	if p.Session != "" {
		if session = c.otherSession(p.Session); session == nil {
			return execproto.InvalidRequest("unknown session " + shorten(p.Session))
		}
	}
	to.inside = session.find(p.ProcessID)
	if to.inside != nil {
		return nil
	}
	if p.Session != "" || !strings.HasPrefix(p.ProcessID, execproto.DetachedPrefix) {
		return unknownProcess(p.ProcessID)
	}
	owner, err := c.ownerOf()
	to.detached, to.owner = p.ProcessID, owner
	return err
}

// otherSession returns the session that tunnel/ports names so, or nil if there is none that
// belongs to the owner of this one.
func (c *conn) otherSession(name string) *session {
	owner, err := c.lastingOwner()
	if err != nil {
		return nil
	}
	for _, s := range c.sessionsOf(owner) {
		if logtext.Digest(s.id) == name {
			return s
		}
	}
	return nil
}

// loopbacks returns the addresses of this machine that a host means; none: it is another
// host. The program that listens may have either family of localhost.
func loopbacks(host string) []netip.Addr {
	if host == "localhost" {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	}
	at, err := netip.ParseAddr(host)
	if at = at.Unmap(); err != nil || !at.IsLoopback() || at.Zone() != "" {
		return nil
	}
	return []netip.Addr{at}
}

// dialInside connects to a port in the network of the process's sandbox. The error is
// runner.ErrNoNetwork if it has none of its own, and os.ErrProcessDone if it has ended.
func (p *proc) dialInside(ctx context.Context, to tunnelTarget) (net.Conn, error) {
	select {
	case <-p.started:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.running == nil {
		return nil, errEndedProcess
	}
	if to.path != "" {
		return p.dialPath(ctx, to.path)
	}
	network, err := p.openNetwork()
	if errors.Is(err, os.ErrProcessDone) {
		return nil, errEndedProcess
	}
	if err != nil {
		return nil, err
	}
	defer network.Close()
	runtime, err := p.s.srv.sandboxes()
	if err != nil {
		return nil, err
	}
	select { // each is a process for a moment
	case p.s.srv.reaching <- struct{}{}:
		defer func() { <-p.s.srv.reaching }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var addresses []netip.AddrPort
	for _, at := range loopbacks(to.host) {
		addresses = append(addresses, netip.AddrPortFrom(at, to.port))
	}
	return runtime.DialInside(ctx, network, addresses)
}

// dialPath connects to a Unix socket as the process sees it in its sandbox. The error is
// runner.ErrNoNetwork if it is in none: its sockets are the server's.
func (p *proc) dialPath(ctx context.Context, path string) (net.Conn, error) {
	if !p.confined {
		return nil, runner.ErrNoNetwork
	}
	if err := p.running.WithPid(func(int) error { return nil }); err != nil {
		return nil, errEndedProcess
	}
	members := func() []int {
		pids, _ := process.Families([]*process.Process{p.running}, maxPortProcesses)
		return pids[0]
	}
	return runner.DialPath(ctx, members, path)
}

// dialDetached connects inside the sandbox of a detached process: its keeper does that, as it
// alone knows that a pid is still that of the process.
func (srv *Server) dialDetached(ctx context.Context, to tunnelTarget, own wsauth.Ceiling) (net.Conn, error) {
	k, err := srv.detached.find(to.owner, to.detached)
	if err != nil {
		return nil, err
	}
	if own != (wsauth.Ceiling{}) && own != k.record.Ceiling {
		return nil, &deniedError{"the process was started under other ceilings than those of this token"}
	}
	if !k.alive() || k.isClosed() {
		return nil, errEndedProcess
	}
	client, err := k.connect(ctx)
	if errors.Is(err, errKeeperEnded) {
		return nil, errEndedProcess
	}
	if err != nil {
		return nil, err
	}
	target := execclient.TunnelTarget{Port: to.port, Path: to.path, ProcessID: to.detached}
	if to.path == "" {
		target.Host = to.host
	} else if !client.Has(execproto.ExtensionTunnelProcessPath) {
		return nil, errors.New("the keeper of the process is that of an older server, and knows no paths")
	}
	conn, err := client.OpenTunnel(ctx, target)
	if err != nil {
		return nil, err
	}
	return conn, nil
}
