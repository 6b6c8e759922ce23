package launcher

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// TestInheritedSockets: unless the network is on, the command inherits only sockets that can reach
// no peer but their own.
func TestInheritedSockets(t *testing.T) {
	const off, proxy, on = plan.NetworkOff, plan.NetworkProxy, plan.NetworkOn
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
		kept []plan.Network
	}{
		"a pair of streams":      {pair(unix.SOCK_STREAM), []plan.Network{off, proxy, on}},
		"a pair of packets":      {pair(unix.SOCK_SEQPACKET), []plan.Network{off, proxy, on}},
		"a pair of datagrams":    {pair(unix.SOCK_DGRAM), []plan.Network{on}},
		"connected TCP":          {func(t *testing.T) int { return connected(t, unix.SOCK_STREAM) }, []plan.Network{off, on}},
		"connected UDP":          {func(t *testing.T) int { return connected(t, unix.SOCK_DGRAM) }, []plan.Network{on}},
		"TCP":                    {func(t *testing.T) int { return socket(t, unix.AF_INET, unix.SOCK_STREAM) }, []plan.Network{on}},
		"UDP":                    {func(t *testing.T) int { return socket(t, unix.AF_INET, unix.SOCK_DGRAM) }, []plan.Network{on}},
		"a Unix stream":          {func(t *testing.T) int { return socket(t, unix.AF_UNIX, unix.SOCK_STREAM) }, []plan.Network{on}},
		"the kernel's addresses": {func(t *testing.T) int { return socket(t, unix.AF_NETLINK, unix.SOCK_RAW) }, []plan.Network{on}},
	} {
		t.Run(name, func(t *testing.T) {
			fd := tt.make(t)
			for _, network := range []plan.Network{off, proxy, on} {
				want := false
				for _, k := range tt.kept {
					want = want || k == network
				}
				if _, keep := inspect(fd, network, plan.SocketsPairs); keep != want {
					t.Errorf("network %d: inherited: %v", network, keep)
				}
			}
			// A socket that can be connected to another peer must not belong to the host's
			// network.
			want := strings.HasPrefix(name, "a pair of ") && name != "a pair of datagrams"
			if _, keep := inspect(fd, off, plan.SocketsLoopback); keep != want {
				t.Errorf("with a loopback of its own: inherited: %v", keep)
			}
		})
	}
}

// TestReopenedFilesAreTheSame: the launcher opens a file again inside, by its path. It must be the
// inherited file. If another file is at the path by now, the descriptor does not become that file,
// because the command may not be permitted to read it.
func TestReopenedFilesAreTheSame(t *testing.T) {
	for name, exchanged := range map[string]bool{"the same file": false, "another file at its path": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			own, other := filepath.Join(dir, "own"), filepath.Join(dir, "other")
			for path, text := range map[string]string{own: "own", other: "other"} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			file, err := os.Open(own)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			f, keep := inspect(int(file.Fd()), plan.NetworkOff, plan.SocketsFew)
			if keep || f.path != own {
				t.Fatalf("inherited as it is: %v; opened again at %q, want %q", keep, f.path, own)
			}
			// This descriptor is in use before the file is opened again.
			placeholder, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			defer placeholder.Close()
			f.fd = int(placeholder.Fd())
			if exchanged {
				if err := os.Rename(other, own); err != nil {
					t.Fatal(err)
				}
			}
			p := initproc.New()
			reopen(p, []inheritedFile{f})
			if err := p.Run(); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 16)
			n, err := unix.Read(f.fd, buf)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := string(buf[:n]), map[bool]string{false: "own"}[exchanged]; got != want {
				t.Errorf("read %q, want %q", got, want)
			}
		})
	}
}
