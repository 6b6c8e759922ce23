//go:build linux || darwin

package execserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/sessionid"
)

// errEndedProcess is the error of a tunnel into the sandbox of a process that has ended.
var errEndedProcess = fmt.Errorf("the process has ended: %w", os.ErrProcessDone)

// targetInside completes the target of a tunnel into the sandbox of a process
// (docs/spec/wire.md §11.7). It must be a process of the session, and the address one of
// the sandbox's loopback: its network has no other.
func (c *conn) targetInside(to *tunnelTarget, p *execproto.TunnelOpenParams) error {
	if p.Path != "" {
		return invalidParams("a tunnel into the sandbox of a process has a port, not a path")
	}
	if len(loopbacks(to.host)) == 0 {
		return invalidParams("a tunnel into the sandbox of a process leads to localhost or a loopback address: its network has no other")
	}
	session := c.session
	if p.Session != "" {
		if session = c.otherSession(p.Session); session == nil {
			return invalid("unknown session " + shorten(p.Session))
		}
	}
	to.inside = session.find(p.ProcessID)
	if to.inside == nil {
		if strings.HasPrefix(p.ProcessID, execproto.DetachedPrefix) {
			return invalid("a detached process belongs to no session: no tunnel leads into its sandbox; start it without --detach")
		}
		return unknownProcess(p.ProcessID)
	}
	return nil
}

// otherSession returns the session that tunnel/ports names so, or nil if there is none that
// belongs to the owner of this one.
func (c *conn) otherSession(name string) *session {
	owner, err := c.lastingOwner()
	if err != nil {
		return nil
	}
	for _, s := range c.sessionsOf(owner) {
		if sessionid.Digest(s.id) == name {
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
// launch.ErrNoNetwork if it has none of its own, and os.ErrProcessDone if it has ended.
func (p *proc) dialInside(ctx context.Context, to tunnelTarget) (net.Conn, error) {
	select {
	case <-p.started:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.running == nil {
		return nil, errEndedProcess
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
