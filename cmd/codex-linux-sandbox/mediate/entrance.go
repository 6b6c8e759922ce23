package mediate

import (
	"errors"
	"syscall"
	"unsafe"

	"codex.internal/pkg/sandbox/transparent"
	"golang.org/x/sys/unix"
)

// Programs compare the result of getpeername with the address and the port that they have named. So a redirected
// connection leads to a listener on exactly this address and port, an entrance, which exists only while the
// connection is made. A listener that stayed would occupy the port: the command could not listen there itself.
//
// The launcher is not in the command's network and cannot enter it, and only a socket of that network can be an
// entrance. But a listener of the network makes such sockets: the launcher connects a socket of the network, the
// source, to its listener, accepts the connection, and undoes it on both sides. What was accepted is then a socket
// without a name. The alternative, a child that enters the network for each socket, costs 20 times as much.

// maxEntrances bounds the entrances that exist at the same time. Further connections use the listener.
const maxEntrances = maxConnecting

// entrance is a listener on an address that a command connects to.
type entrance struct {
	fd, users int
	to        transparent.Message
}

// enter returns the entrance for an address. It returns nil if there can be none: the command listens on the port
// itself, or there are too many. The caller must leave the entrance.
func (r *Redirect) enter(to transparent.Message) *entrance {
	if to.Port == 0 || to.Port == capturePort {
		return nil
	}
	r.opening.Lock()
	defer r.opening.Unlock()
	e := r.entrances[to]
	if e == nil {
		if len(r.entrances) >= maxEntrances {
			return nil
		}
		fd, err := r.open(to)
		if err != nil {
			return nil
		}
		e = &entrance{fd: fd, to: to}
		r.entrances[to] = e
	}
	e.users++
	return e
}

// leave ends the use of an entrance. The last user closes it.
func (r *Redirect) leave(e *entrance) {
	if e == nil {
		return
	}
	r.opening.Lock()
	defer r.opening.Unlock()
	if e.users--; e.users == 0 {
		_ = unix.Close(e.fd)
		delete(r.entrances, e.to)
	}
}

// open returns a listener on an address. It is called with opening held.
func (r *Redirect) open(to transparent.Message) (fd int, err error) {
	if fd, err = r.unnamed(); err != nil {
		return -1, err
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	name, err := unix.Getsockname(r.listener)
	if err != nil {
		return -1, err
	}
	// The address is local by a route alone, and no interface has it.
	var address unix.Sockaddr
	if _, six := name.(*unix.SockaddrInet6); six {
		address, err = &unix.SockaddrInet6{Port: int(to.Port), Addr: to.Address}, unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
	} else {
		address = &unix.SockaddrInet4{Port: int(to.Port), Addr: [4]byte(to.Address[12:])}
	}
	// Connections that came through an earlier entrance of the same address have its address.
	return fd, errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.Bind(fd, address),
		unix.Listen(fd, listenBacklog), unix.SetNonblock(fd, true))
}

// unnamed returns a new socket of the command's network, which is not bound.
func (r *Redirect) unnamed() (int, error) {
	own, err := unix.Getsockname(r.listener)
	if err != nil {
		return -1, err
	}
	// An IPv6 socket that was accepted from IPv4 stays one for IPv4.
	if a, six := own.(*unix.SockaddrInet6); six {
		a.Addr[15] = 1
	} else if a, four := own.(*unix.SockaddrInet4); four {
		a.Addr = [4]byte{127, 0, 0, 1}
	}
	defer disconnect(r.source)
	if err := unix.Connect(r.source, own); err != nil && err != unix.EINPROGRESS {
		return -1, err
	}
	fd := r.accept(r.listener, r.source)
	if fd < 0 {
		return -1, unix.ETIMEDOUT
	}
	if err := disconnect(fd); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// disconnect undoes the connection of a socket, which then has no address and can be used again (connect(2), AF_UNSPEC).
func disconnect(socket int) error {
	none := unix.RawSockaddr{Family: unix.AF_UNSPEC}
	if _, _, errno := syscall.Syscall(unix.SYS_CONNECT, uintptr(socket), uintptr(unsafe.Pointer(&none)), unsafe.Sizeof(none)); errno != 0 {
		return errno
	}
	return nil
}
