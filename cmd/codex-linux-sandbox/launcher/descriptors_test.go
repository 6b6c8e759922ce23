//go:build linux

package launcher

import (
	"testing"

	"codex.internal/pkg/sandbox"
	"golang.org/x/sys/unix"
)

// TestInheritedSockets: unless the network is on, only sockets are inherited
// that reach nobody but the peer that they have.
func TestInheritedSockets(t *testing.T) {
	const off, proxy, on = sandbox.NetworkOff, sandbox.NetworkProxy, sandbox.NetworkOn
	local := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	socket := func(t *testing.T, family, kind int) int {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	connected := func(t *testing.T, kind int) int {
		server, fd := socket(t, unix.AF_INET, kind), socket(t, unix.AF_INET, kind)
		must(t, unix.Bind(server, local))
		if kind == unix.SOCK_STREAM {
			must(t, unix.Listen(server, 1))
		}
		at, err := unix.Getsockname(server)
		must(t, err)
		must(t, unix.Connect(fd, at))
		return fd
	}
	pair := func(kind int) func(t *testing.T) int {
		return func(t *testing.T) int {
			fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
			must(t, err)
			t.Cleanup(func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) })
			return fds[0]
		}
	}
	for name, tt := range map[string]struct {
		make func(t *testing.T) int
		kept []sandbox.Network
	}{
		"a pair of streams":      {pair(unix.SOCK_STREAM), []sandbox.Network{off, proxy, on}},
		"a pair of packets":      {pair(unix.SOCK_SEQPACKET), []sandbox.Network{off, proxy, on}},
		"a pair of datagrams":    {pair(unix.SOCK_DGRAM), []sandbox.Network{on}},
		"connected TCP":          {func(t *testing.T) int { return connected(t, unix.SOCK_STREAM) }, []sandbox.Network{off, on}},
		"connected UDP":          {func(t *testing.T) int { return connected(t, unix.SOCK_DGRAM) }, []sandbox.Network{on}},
		"TCP":                    {func(t *testing.T) int { return socket(t, unix.AF_INET, unix.SOCK_STREAM) }, []sandbox.Network{on}},
		"UDP":                    {func(t *testing.T) int { return socket(t, unix.AF_INET, unix.SOCK_DGRAM) }, []sandbox.Network{on}},
		"a Unix stream":          {func(t *testing.T) int { return socket(t, unix.AF_UNIX, unix.SOCK_STREAM) }, []sandbox.Network{on}},
		"the kernel's addresses": {func(t *testing.T) int { return socket(t, unix.AF_NETLINK, unix.SOCK_RAW) }, []sandbox.Network{on}},
	} {
		t.Run(name, func(t *testing.T) {
			fd := tt.make(t)
			for _, network := range []sandbox.Network{off, proxy, on} {
				want := false
				for _, k := range tt.kept {
					want = want || k == network
				}
				if _, keep := inspect(fd, network); keep != want {
					t.Errorf("network %d: inherited: %v", network, keep)
				}
			}
		})
	}
}
