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
	// carriedTOS is the type of service that marks a carried TCP connection. The process at the
	// other end reads it by the kernel's socket diagnosis, for IPv4 and IPv6. Its differentiated
	// services codepoint is reserved for local use (RFC 2474, section 6), and no program requests
	// it.
	carriedTOS = 0x2c
	// carriedName is the beginning of the abstract name of a Unix socket whose connection is
	// carried.
	carriedName = "@codex-carried-"
)

// Carried marks a connection that this program makes on behalf of another process, as a network
// proxy and a tunnel do. It is the Control function of a net.Dialer. Identify and UserOf refuse
// marked connections. Scenario: a sandboxed command requests the port of an exec-server of the same
// user from its proxy. The proxy itself is not sandboxed, so without the mark the command could run
// commands there without a sandbox (TestCarriedConnectionsAreRefused). Connections to other
// machines are not marked.
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
