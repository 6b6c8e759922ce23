//go:build !linux

package peercred

import (
	"net"
	"net/netip"
)

// IdentifyTCP is Identify for a TCP connection that is given by its addresses.
func IdentifyTCP(_, _ netip.AddrPort) (uid int, err error) {
	return 0, refuse("%v", ErrUnsupported)
}

func userOfTCP(_, _ netip.AddrPort) (int, error) { return 0, ErrUnsupported }

func serverOfTCP(_, _ netip.AddrPort) (int, error) { return 0, ErrUnsupported }

func userOfUnix(*net.UnixConn) (int, error) { return 0, ErrUnsupported }

func identifyUnix(*net.UnixConn) (int, error) { return 0, refuse("%v", ErrUnsupported) }
