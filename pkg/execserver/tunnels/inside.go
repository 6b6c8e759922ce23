package tunnels

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/wire/pathuri"
)

// ErrProcessEnded is the error of a tunnel into the sandbox of a process that has ended.
var ErrProcessEnded = fmt.Errorf("the process has ended: %w", os.ErrProcessDone)

// lead completes the target of a tunnel into the sandbox of a process
// (docs/spec/wire.md §11.7). The address must be a loopback address, because the sandbox's network has no other
// addresses.
func (to *Target) lead(c Conn, p *execproto.TunnelOpenParams) (err error) {
	if p.Path != "" {
		if to.Path, err = pathuri.Parse(p.Path, ""); err != nil {
			return err
		}
	} else if len(loopbacks(to.Host)) == 0 {
		return execproto.InvalidParams("a tunnel into the sandbox of a process can lead only to localhost or a loopback address: its network has no other addresses")
	}
	to.processID = p.ProcessID
	to.inside, err = c.Process(p.Session, p.ProcessID)
	return err
}

// Running is a process of a session.
type Running struct {
	Process  *process.Process
	Confined bool
	ID       string
	Session  string // the session's name in tunnel/ports; "": the connection's session
}

// loopbacks returns the addresses of this machine that a host stands for; none: it is another
// host. A program on localhost may listen on either address family.
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

// DialInside connects to a target in the sandbox of a process. The error is runner.ErrNoNetwork if it
// has no network of its own, and ErrProcessEnded if it has ended.
func (srv *Server) DialInside(ctx context.Context, p Running, to Target) (net.Conn, error) {
	if to.Path != "" {
		return p.dialPath(ctx, to.Path)
	}
	network, err := p.openNetwork()
	if errors.Is(err, os.ErrProcessDone) {
		return nil, ErrProcessEnded
	}
	if err != nil {
		return nil, err
	}
	defer network.Close()
	runtime, err := srv.Sandboxes()
	if err != nil {
		return nil, err
	}
	select { // each attempt starts a short-lived process
	case srv.reaching <- struct{}{}:
		defer func() { <-srv.reaching }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var addresses []netip.AddrPort
	for _, at := range loopbacks(to.Host) {
		addresses = append(addresses, netip.AddrPortFrom(at, to.Port))
	}
	return runtime.DialInside(ctx, network, addresses)
}

// dialPath connects to a Unix socket, whose path is resolved in the process's sandbox. The
// error is runner.ErrNoNetwork if the process has no sandbox: its paths are then the server's.
func (p Running) dialPath(ctx context.Context, path string) (net.Conn, error) {
	if !p.Confined {
		return nil, runner.ErrNoNetwork
	}
	if err := p.Process.WithPid(func(int) error { return nil }); err != nil {
		return nil, ErrProcessEnded
	}
	members := func() []int {
		pids, _ := process.Families([]*process.Process{p.Process}, maxPortProcesses)
		return pids[0]
	}
	return runner.DialPath(ctx, members, path)
}

// openNetwork returns a descriptor of the network of the process's sandbox. The error is
// runner.ErrNoNetwork or runner.ErrNotReady if there is none, and os.ErrProcessDone if the
// process has ended.
func (p Running) openNetwork() (network *os.File, err error) {
	err = p.Process.WithPid(func(pid int) (err error) {
		if !p.Confined {
			return runner.ErrNoNetwork
		}
		network, err = runner.OpenNetwork(pid)
		return err
	})
	return network, err
}
