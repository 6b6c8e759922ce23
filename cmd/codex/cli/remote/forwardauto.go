package remote

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync/atomic"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/terminal"
)

// maxAutoPorts bounds the ports that are forwarded automatically. Each takes two sockets here,
// and a program on the server could open thousands.
const maxAutoPorts = 64

// autoForward forwards each port on which processes of the server listen, as long as they
// listen. It is for one goroutine.
type autoForward struct {
	f    *forwarder
	say  func(line string) // prints a change for the user
	open map[autoKey]*autoPort
	full bool // more ports are open than are forwarded
}

// autoKey identifies a port for the user: the same number in the same network. session and
// process are empty for the server's own network.
type autoKey struct {
	session, process string
	port             uint16
}

// autoPort is a forwarded port.
type autoPort struct {
	here      string
	listeners []net.Listener
	to        atomic.Pointer[execclient.TunnelTarget]
}

// auto begins to forward every port on which a process of this session listens. With all, it
// forwards those of all sessions of the same user or token.
func (f *forwarder) auto(all bool, say func(line string)) error {
	w, err := f.client.WatchPorts(f.ctx, execclient.PortOptions{AllSessions: all})
	if errors.Is(err, execclient.ErrUnsupported) {
		return errors.New("this server does not report the ports on which its processes listen: it is Codex CLI's, or an older one; name the ports")
	}
	if err != nil {
		return err
	}
	a := &autoForward{f: f, say: say, open: make(map[autoKey]*autoPort)}
	f.wg.Go(func() {
		defer w.Close()
		a.routine(w)
	})
	return nil
}

// routine forwards the ports that the watch reports, until the forwarder is closed or the
// watch ends.
func (a *autoForward) routine(w *execclient.PortWatch) {
	for {
		now, err := w.Next(a.f.ctx)
		if err != nil {
			if a.f.ctx.Err() == nil && a.f.client.Err() == nil {
				a.say(terminal.Text(fmt.Sprintf("ports are no longer forwarded automatically: %v", err)))
			}
			return
		}
		a.update(now.Ports)
	}
}

// update forwards exactly the given ports.
func (a *autoForward) update(ports []execproto.Port) {
	open := make(map[autoKey][]execproto.Port)
	var order []autoKey
	for _, p := range ports {
		if a.isOwn(p) {
			continue
		}
		key := autoKey{port: p.Port}
		if p.Inside {
			key.session, key.process = p.Session, p.ProcessID
		}
		if open[key] == nil {
			order = append(order, key)
		}
		open[key] = append(open[key], p)
	}
	for key, port := range a.open {
		if open[key] == nil {
			delete(a.open, key)
			for _, l := range port.listeners {
				_ = l.Close()
				a.f.forget(l)
			}
			a.say(fmt.Sprintf("%s is closed: nothing listens on port %d any more", port.here, key.port))
		}
	}
	a.full = a.full && len(open) > maxAutoPorts
	for _, key := range order {
		to := autoTarget(key, open[key])
		if port := a.open[key]; port != nil {
			port.to.Store(&to)
			continue
		}
		if len(a.open) >= maxAutoPorts {
			if !a.full {
				a.full = true
				a.say(fmt.Sprintf("more than %d ports are open; the others are not forwarded", maxAutoPorts))
			}
			return
		}
		a.forward(key, &to, open[key][0])
	}
}

// isOwn reports whether this program itself has opened a port. The watch also reports such ports if
// the program runs in a session of the same user. Forwarding one would open another port, which
// would be forwarded in turn, and so on.
func (a *autoForward) isOwn(p execproto.Port) bool {
	if p.PID != uint64(os.Getpid()) {
		return false
	}
	for _, port := range a.open {
		if port.listeners[0].Addr().(*net.TCPAddr).Port == int(p.Port) {
			return true
		}
	}
	return false
}

// forward listens for a port, on loopback addresses only. It uses the same number if that is free
// here, otherwise another one.
func (a *autoForward) forward(key autoKey, to *execclient.TunnelTarget, p execproto.Port) {
	listeners, err := listenHere(a.f.ctx, endpoint{port: key.port})
	if err != nil { // the port is in use, or only root may use it
		listeners, err = listenHere(a.f.ctx, endpoint{})
	}
	if err != nil {
		a.say(terminal.Text(fmt.Sprintf("port %d cannot be forwarded: %v", key.port, err)))
		return
	}
	number := listeners[0].Addr().(*net.TCPAddr).Port
	port := &autoPort{here: net.JoinHostPort("localhost", strconv.Itoa(number)), listeners: listeners}
	port.to.Store(to)
	a.open[key] = port
	for _, l := range listeners {
		a.f.serve(l, port.here, func(conn net.Conn) error { return a.f.connect(conn, *port.to.Load()) })
	}
	a.say(fmt.Sprintf("%s leads to port %d of %s (process %d)", port.here, key.port, terminal.Text(p.Command), p.PID))
}

// connect opens a tunnel for a connection to exactly the given target.
func (f *forwarder) connect(conn net.Conn, to execclient.TunnelTarget) error {
	t, err := f.client.OpenTunnel(f.ctx, to)
	if err != nil {
		reset(conn)
		return err
	}
	_ = t.Join(conn)
	return nil
}

// autoTarget returns the target of connections to a port that is open on the given addresses. It is
// localhost if that is among them.
func autoTarget(key autoKey, ports []execproto.Port) execclient.TunnelTarget {
	to := execclient.TunnelTarget{Port: key.port, ProcessID: key.process, Session: key.session}
	hosts := make([]string, len(ports))
	for i, p := range ports {
		at, err := netip.ParseAddr(p.Host)
		if err == nil && (at.IsUnspecified() || at == netip.IPv6Loopback() || at == netip.AddrFrom4([4]byte{127, 0, 0, 1})) {
			return to
		}
		hosts[i] = p.Host
	}
	to.Host = hosts[max(0, slices.IndexFunc(hosts, isLoopback))]
	return to
}

func isLoopback(host string) bool {
	at, err := netip.ParseAddr(host)
	return err == nil && at.IsLoopback()
}

// sayTo returns a function that prints the lines of auto.
func sayTo(p prefixed) func(line string) {
	return func(line string) { _, _ = fmt.Fprintln(p, line) }
}
