package peercred

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// RefusedError is the reason why a peer is not admitted.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "the client is refused: " + e.Reason }

func refuse(format string, args ...any) error {
	return &RefusedError{fmt.Sprintf(format, args...)}
}

// ErrUnsupported is the error of systems that cannot identify a peer.
var ErrUnsupported = errors.New("this system does not report which process owns a connection")

// Identify returns the user of the process at the other end of a TCP or Unix connection, if that
// process may act for the user of this process. If it returns an error, the peer must not be
// admitted.
//
// The peer's user must be this process's own user or root, and no process that holds the peer's
// socket may be confined. If no process seems to hold the socket, the connection is refused. The
// holder may then be a process whose descriptors cannot be read, such as sshd if this process is
// not root. But a confined process can hide its socket in the queue of a Unix socket, even one of a
// process outside of the sandbox, and can end before this program scans.
//
// A connection that Carried has marked is refused too.
func Identify(conn net.Conn) (uid int, err error) {
	conn = innermost(conn)
	switch local := conn.LocalAddr().(type) {
	case *net.TCPAddr:
		remote, ok := conn.RemoteAddr().(*net.TCPAddr)
		if !ok {
			return 0, refuse("its address %v is not a TCP address", conn.RemoteAddr())
		}
		return IdentifyTCP(local.AddrPort(), remote.AddrPort())
	case *net.UnixAddr:
		unixConn, ok := conn.(*net.UnixConn)
		if !ok {
			return 0, refuse("its connection is a %T, not a Unix socket", conn)
		}
		return identifyUnix(unixConn)
	default:
		return 0, refuse("the owner of a connection over %s cannot be identified", local.Network())
	}
}

// UserOf returns the user at the other end of a connection, without checking the process. It takes
// a few system calls, while Identify scans all processes. A connection that Carried has marked is
// an error, because its user is not the one on whose behalf it is made.
func UserOf(conn net.Conn) (uid int, err error) {
	conn = innermost(conn)
	switch c := conn.(type) {
	case *net.TCPConn:
		local, remote := c.LocalAddr().(*net.TCPAddr), c.RemoteAddr().(*net.TCPAddr)
		return userOfTCP(plain(local.AddrPort()), plain(remote.AddrPort()))
	case *net.UnixConn:
		return userOfUnix(c)
	default:
		return 0, ErrUnsupported
	}
}

// ServerOf returns the user of the process that listens at the other end of a connection made by
// this program, whether that process has accepted the connection or not. The error is
// ErrUnsupported if this system does not report the user.
func ServerOf(conn net.Conn) (uid int, err error) {
	switch c := innermost(conn).(type) {
	case *net.TCPConn:
		local, remote := c.LocalAddr().(*net.TCPAddr), c.RemoteAddr().(*net.TCPAddr)
		return serverOfTCP(plain(local.AddrPort()), plain(remote.AddrPort()))
	case *net.UnixConn:
		return userOfUnix(c)
	default:
		return 0, ErrUnsupported
	}
}

// innermost returns the connection inside all wrappers.
func innermost(conn net.Conn) net.Conn {
	for {
		outer, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = outer.NetConn()
	}
}

// plain converts an address to the form used for comparisons: without a zone, and with an
// IPv4-mapped IPv6 address as an IPv4 address.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
