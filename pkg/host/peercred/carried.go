package peercred

import (
	"errors"
	"net"
	"net/netip"
)

// errCarried is the reason to refuse a connection that Carried has marked.
var errCarried = errors.New("a program carries its connection for another process, as network proxies and tunnels do")

// IsOwnAddress reports whether an address is one of this machine's. If its
// addresses cannot be listed, it returns true.
func IsOwnAddress(address netip.Addr) bool {
	address = address.Unmap() // 0.0.0.0 would not be found as ::ffff:0.0.0.0
	if address.IsLoopback() || address.IsUnspecified() {
		return true
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, a := range own {
		if network, ok := a.(*net.IPNet); ok && network.IP.Equal(address.AsSlice()) {
			return true
		}
	}
	return false
}
