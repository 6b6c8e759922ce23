//go:build !linux

package runner

import (
	"context"
	"net"
	"net/netip"
	"os"
)

// OpenNetwork fails: only on Linux has a process a network of its own.
func OpenNetwork(int) (*os.File, error) { return nil, ErrNoNetwork }

// DialPath fails: only on Linux is there a sandbox that shows sockets of its own.
func DialPath(context.Context, func() []int, string) (net.Conn, error) { return nil, ErrNoNetwork }

// DialInside fails as OpenNetwork does.
func (*Runtime) DialInside(context.Context, *os.File, []netip.AddrPort) (net.Conn, error) {
	return nil, ErrNoNetwork
}
