package cmdutil

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// CheckAddress returns an error if this machine does not have an IP address. It takes any free port for
// a moment, because a running server may have the right one.
func CheckAddress(addr netip.AddrPort) error {
	free := netip.AddrPortFrom(addr.Addr(), 0)
	l, err := net.Listen(Family(free), free.String())
	if err != nil {
		return ListenError(addr, err)
	}
	return l.Close()
}

// Family returns the network of an address. "tcp" would also listen on IPv6 for the IPv4 wildcard address.
func Family(addr netip.AddrPort) string {
	if addr.Addr().Is4() {
		return "tcp4"
	}
	return "tcp6"
}

// ListenError adds advice to an error of listening on a port.
func ListenError(addr netip.AddrPort, err error) error {
	err = WithoutAddress(err)
	return fmt.Errorf("listen on %s: %w%s", addr, err, ListenHint(err))
}

// WithoutAddress removes the address from an error, because the message around it will have the
// address.
func WithoutAddress(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
