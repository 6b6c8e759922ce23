package websocket

import (
	"net/netip"
	"strings"
)

// IsLoopback reports whether the host of a URL, without a port or brackets, is this
// machine: localhost or a loopback address. It does not look up names. An IPv4 address
// in IPv6 form does not count, because not every system connects it to this machine.
func IsLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && !addr.Is4In6() && addr.IsLoopback()
}
