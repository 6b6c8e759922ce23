package mediate

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"unsafe"

	"codex.internal/pkg/sandbox/transparent"
	"golang.org/x/sys/unix"
)

// socketAddress makes a struct sockaddr of an Internet address.
func socketAddress(to string) []byte {
	a := netip.MustParseAddrPort(to)
	b := make([]byte, 8)
	if a.Addr().Is4() {
		binary.NativeEndian.PutUint16(b, unix.AF_INET)
		ip := a.Addr().As4()
		copy(b[4:], ip[:])
		b = append(b, make([]byte, 8)...)
	} else {
		binary.NativeEndian.PutUint16(b, unix.AF_INET6)
		ip := a.Addr().As16()
		b = append(append(b, ip[:]...), make([]byte, 4)...)
	}
	binary.BigEndian.PutUint16(b[2:], a.Port())
	return b
}

// TestDestinations: every spelling of an address is parsed, and the sandbox's own
// addresses are recognized.
func TestDestinations(t *testing.T) {
	for to, inside := range map[string]bool{
		"127.0.0.1:1": true, "127.255.0.9:65535": true, "0.0.0.0:80": true, "[::]:80": true, "[::1]:80": true,
		"[::ffff:127.0.0.1]:80": true, "[::ffff:0.0.0.0]:80": true,
		"128.0.0.1:80": false, "93.184.216.34:443": false, "[2606:4700::1]:443": false, "[::ffff:10.0.0.1]:22": false,
		"[::2]:80": false, "[fe80::1]:80": false, "169.254.169.254:80": false, "255.255.255.255:53": false, "[::127.0.0.1]:80": false,
	} {
		m, ok := destination(socketAddress(to))
		want := netip.MustParseAddrPort(to)
		if !ok || m.Kind != transparent.Connection || m.Address != want.Addr().As16() || m.Port != want.Port() || own(m.Address) != inside {
			t.Errorf("%s: %+v %v, inside: %v", to, m, ok, own(m.Address))
		}
	}
	unspecified := socketAddress("1.2.3.4:5")
	binary.NativeEndian.PutUint16(unspecified, unix.AF_UNSPEC)
	for _, b := range [][]byte{nil, {2}, socketAddress("1.2.3.4:5")[:7], socketAddress("[::2]:5")[:23], unspecified, []byte("\x01\x00/tmp/socket")} {
		if m, ok := destination(b); ok {
			t.Errorf("%x: got %+v, want ok false", b, m)
		}
	}
}

// TestRouteRequests: the kernel accepts the messages of catchAll, byte for byte.
func TestRouteRequests(t *testing.T) {
	if size := unsafe.Sizeof(routeRequest{}); size != 16+12+8 {
		t.Errorf("a request has %d bytes", size)
	}
}
