package peercred

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// carriedTOS is the type of service that marks a carried TCP connection. The other end finds it by the
	// kernel's socket diagnosis, for IPv4 and IPv6. Its differentiated services codepoint is for local use (RFC
	// 2474, section 6), and no program requests it.
	carriedTOS = 0x2c
	// carriedName begins the abstract name of a Unix socket whose connection is carried.
	carriedName = "@codex-carried-"
)

// Carried is the Control of a net.Dialer for connections that this program makes for somebody else, as a network proxy
// and a tunnel do. Identify and UserOf refuse them. Scenario: a sandboxed command asks its proxy, which no sandbox
// confines, for the port of an exec-server of the same user, and runs commands there without a sandbox
// (TestCarriedConnectionsAreRefused). Connections to other machines are not marked.
func Carried(network, address string, c syscall.RawConn) (err error) {
	isUnix := strings.HasPrefix(network, "unix")
	if !isUnix {
		to, err := netip.ParseAddrPort(address)
		if err != nil || !IsOwnAddress(to.Addr()) {
			return err
		}
	}
	failed := c.Control(func(fd uintptr) {
		if isUnix {
			err = unix.Bind(int(fd), &unix.SockaddrUnix{Name: carriedName + rand.Text()})
		} else {
			err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_TOS, carriedTOS)
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("mark the connection as carried for another process: %w", err)
	}
	return nil
}

// isCarried reports whether the other end of a Unix connection is marked.
func isCarried(c *net.UnixConn) bool { return strings.HasPrefix(c.RemoteAddr().String(), carriedName) }
