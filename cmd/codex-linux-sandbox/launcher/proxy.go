package launcher

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/cmd/codex-linux-sandbox/mediate"
	"codex.internal/pkg/sandbox/proxybridge"
	"golang.org/x/sys/unix"
)

// Managed proxy mode (docs/spec/network.md §3): the command has an empty network with a listener
// for each proxy. The steps inside create the listeners and pass them to the launcher, which
// connects each of their connections to a proxy of the host. The listeners are not in the file
// system, and end with the launcher.

// backlog is the backlog of each listener inside.
const backlog = 128

// proxies are the routes of a launch.
type proxies struct {
	*proxybridge.Routes
	fixed  []int // descriptor numbers of the listeners inside
	ours   int   // the launcher's end of the socket over which they arrive
	theirs int
}

// findProxies returns the proxies of the command's environment, or of a route spec.
func (l *launch) findProxies() (*proxies, error) {
	routes, err := proxybridge.Find(l.env, l.routeSpec)
	if err != nil {
		return nil, err
	}
	for _, e := range routes.Endpoints {
		if l.hasProxyPorts && e.Path == "" && !slices.Contains(strings.Split(l.proxyPorts, ","), strconv.Itoa(int(e.Port))) {
			return nil, errOutside
		}
	}
	x := &proxies{Routes: routes, ours: -1, theirs: -1}
	return x, x.open()
}

// errOutside is the error for a variable that names a proxy on another machine.
var errOutside = errors.New("proxy endpoint is outside the managed sandbox context")

// open creates the socket over which the listeners arrive, and reserves their descriptor numbers.
func (x *proxies) open() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a socket: %w", err)
	}
	x.ours, x.theirs = pair[0], pair[1]
	for range x.Ports {
		fd, err := unix.FcntlInt(uintptr(x.theirs), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("reserve a descriptor: %w", err)
		}
		x.fixed = append(x.fixed, fd)
	}
	return nil
}

// listen appends the steps that create the listeners inside and send them to the launcher.
func (x *proxies) listen(p *initproc.Program) {
	for i, port := range x.Ports {
		fd := p.Get("make a socket", "", unix.SYS_SOCKET, initproc.Val(unix.AF_INET), initproc.Val(unix.SOCK_STREAM|unix.SOCK_CLOEXEC), initproc.Val(0))
		address := &unix.RawSockaddrInet4{Family: unix.AF_INET, Port: port<<8 | port>>8, Addr: [4]byte{127, 0, 0, 1}}
		p.Do("bind", "127.0.0.1:"+strconv.Itoa(int(port)), unix.SYS_BIND, fd.Arg(), initproc.Pointer(p, address), initproc.Val(unix.SizeofSockaddrInet4))
		p.Do("listen", "", unix.SYS_LISTEN, fd.Arg(), initproc.Val(backlog))
		p.Do("keep the listener", "", unix.SYS_DUP3, fd.Arg(), initproc.Val(x.fixed[i]), initproc.Val(unix.O_CLOEXEC))
		p.Close(fd)
	}
	p.HandOut("the listeners", x.theirs, x.fixed...)
	for _, fd := range x.fixed {
		p.Do("close", "the listener", unix.SYS_CLOSE, initproc.Val(fd))
	}
	p.Do("close", "the socket", unix.SYS_CLOSE, initproc.Val(x.theirs))
}

// serve receives the listeners and connects their connections, until the
// launcher ends. It returns at once.
func (x *proxies) serve() {
	for _, fd := range append(slices.Clone(x.fixed), x.theirs) {
		_ = unix.Close(fd)
	}
	go func() {
		oob := make([]byte, unix.CmsgSpace(4*proxybridge.MaxRoutes))
		_, n, _, _, err := unix.Recvmsg(x.ours, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
		if err == nil {
			x.adopt(mediate.Descriptors(oob[:n]))
		}
	}()
}

// adopt serves listeners that were created inside.
func (x *proxies) adopt(fds []int) {
	for i, fd := range fds[:min(len(fds), len(x.Endpoints))] {
		go proxybridge.Accept(fd, x.Endpoints[i])
	}
}

// listenHere creates the listeners of ports in this process, which is inside, and sends them with a
// greeting.
func (x *proxies) listenHere() error {
	var fds []int
	for _, port := range x.Ports {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}})
		}
		if err == nil {
			err = unix.Listen(fd, backlog)
		}
		if err != nil {
			return fmt.Errorf("error activating Linux proxy routing bridge: listen on 127.0.0.1:%d: %w", port, err)
		}
		fds = append(fds, fd)
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if err := unix.Sendmsg(x.theirs, []byte{1}, oob, nil, 0); err != nil {
		return fmt.Errorf("tell the launcher: %w", err)
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	return nil
}
