package escape

import (
	"encoding/binary"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// hostServer starts a server on the host that greets each connection, and counts connections or received messages. A connection
// is counted before it is greeted, so that a greeted client is counted already.
func hostServer(t *testing.T, kind int, name string) *atomic.Int32 {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: name}))
	if !strings.HasPrefix(name, "@") {
		must(t, unix.Chmod(name, 0o777))
	}
	var arrived atomic.Int32
	if kind != unix.SOCK_DGRAM {
		must(t, unix.Listen(fd, 100))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if kind == unix.SOCK_DGRAM {
				if n, err := unix.Read(fd, make([]byte, 10)); err != nil || n == 0 {
					return
				}
				arrived.Add(1)
			} else {
				peer, _, err := unix.Accept(fd)
				if err != nil {
					return
				}
				arrived.Add(1)
				_, _ = unix.Write(peer, []byte("h"))
				_ = unix.Close(peer)
			}
		}
	}()
	t.Cleanup(func() {
		_ = unix.Shutdown(fd, unix.SHUT_RDWR)
		<-done
		_ = unix.Close(fd)
	})
	return &arrived
}

// countedNow returns the count of a stream server when all earlier connections are counted. It connects for that, and its own connection,
// which the server takes last, is counted, too. Otherwise a connection made before may be counted later.
func countedNow(t *testing.T, name string, arrived *atomic.Int32) int32 {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.Connect(fd, &unix.SockaddrUnix{Name: name}))
	if _, err := unix.Read(fd, make([]byte, 1)); err != nil {
		t.Fatalf("read the greeting: %v", err)
	}
	return arrived.Load()
}

// needSocketTable skips a test if the kernel cannot list Unix sockets (the module unix_diag).
// Without that list the launcher refuses connections to paths.
func needSocketTable(t *testing.T) {
	t.Helper()
	const what = "table of Unix sockets in its kernel"
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	testutil.Need(t, what, err, unix.EPROTONOSUPPORT)
	defer unix.Close(fd)
	// The request consists of struct nlmsghdr and struct unix_diag_req. It asks for all listening sockets.
	request := [40]byte{0: 40, 4: unix.SOCK_DIAG_BY_FAMILY, 6: unix.NLM_F_REQUEST, 7: unix.NLM_F_DUMP >> 8, 16: unix.AF_UNIX, 21: 1 << 2}
	must(t, unix.Sendto(fd, request[:], 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	answer := make([]byte, 32<<10)
	n, err := unix.Read(fd, answer)
	must(t, err)
	const end = unix.NLMSG_HDRLEN + 4 // the end of the error number after the header, which both kinds of messages have
	if n < end {
		t.Fatalf("the kernel answers with %d bytes", n)
	}
	if kind := binary.NativeEndian.Uint16(answer[4:]); kind == unix.NLMSG_ERROR {
		testutil.Need(t, what, syscall.Errno(-int32(binary.NativeEndian.Uint32(answer[unix.NLMSG_HDRLEN:end]))), unix.ENOENT)
	}
}

// TestOwnSockets: a command without a network can use its own loopback and its
// own Unix sockets.
func TestOwnSockets(t *testing.T) {
	needSocketTable(t)
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		o := p.run(backend, p.opened(), "own sockets")
		if o.text != "done\n" || o.code != 0 {
			t.Errorf("got %v; want o.text %q, o.code 0", o, "done\n")
		}
	})
}

// TestSocketPairs: socket pairs work with every backend, even if the command has no network
// namespace of its own.
func TestSocketPairs(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		o := p.run(backend, p.opened(), "pairs")
		if o.text != "done\n" || o.code != 0 {
			t.Errorf("got %v; want o.text %q, o.code 0", o, "done\n")
		}
	})
}

// TestSocketsOfTheHost: a command cannot reach a server outside under any name, even if the
// server's socket is in a directory that the command may write.
func TestSocketsOfTheHost(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		stream, datagrams := p.ws+"/s", p.ws+"/d"
		var counts []*atomic.Int32
		for name, kind := range map[string]int{stream: unix.SOCK_STREAM, stream + "-p": unix.SOCK_SEQPACKET, datagrams: unix.SOCK_DGRAM} {
			counts = append(counts, hostServer(t, kind, name))
			must(t, unix.Lchown(name, p.uid, p.uid))
		}
		contained(t, p.run(backend, p.opened(), "host sockets", stream, datagrams))
		for _, arrived := range counts {
			if n := arrived.Load(); n > 0 {
				t.Errorf("%d connections or datagrams have arrived", n)
			}
		}
		for _, name := range []string{"l-s", "h-s", "l-s-p", "h-s-p", "l-d", "h-d", "own", "other"} {
			_ = unix.Unlink(p.ws + "/" + name)
		}
		works(t, p.run("", "", "host sockets", stream, datagrams))
	})
}

// TestSocketsAreExchanged: a command cannot reach a server outside by replacing files, memory or
// descriptors while the launcher makes a connection.
func TestSocketsAreExchanged(t *testing.T) {
	needSocketTable(t)
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		host := p.ws + "/host"
		arrived := hostServer(t, unix.SOCK_STREAM, host)
		must(t, unix.Lchown(host, p.uid, p.uid))
		contained(t, p.run(backend, p.opened(), "exchanged connections", host))
		if n := arrived.Load(); n > 0 {
			t.Errorf("%d connections have arrived", n)
		}
		for _, name := range []string{"mine", "x", "y"} {
			must(t, unix.Unlink(p.ws+"/"+name))
		}
		works(t, p.run("", "", "exchanged connections", host))
	})
}

// TestNoLocalSockets: with --no-local-sockets, and with a policy that permits no writing, a command
// gets no sockets that have addresses.
func TestNoLocalSockets(t *testing.T) {
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		option := p.command(t.Context(), backend, p.opened(), "own sockets")
		option.Args = append([]string{option.Args[0], "--no-local-sockets"}, option.Args[1:]...)
		looking := p.command(t.Context(), backend, entries("root=read"), "own sockets", "somewhere")
		for policy, cmd := range map[string]*exec.Cmd{"the option": option, "nothing to write": looking} {
			o := p.finish(cmd)
			for _, name := range []string{"tcp", "tcp6", "udp", "udp6", "stream", "packets", "abstract"} {
				if !strings.Contains(o.text, "fails: "+name+" operation not permitted\n") {
					t.Errorf("%s: %s works: %v", policy, name, o)
				}
			}
			if pairs := !strings.Contains(o.text, "fails: a pair"); pairs != (cmd == looking) {
				t.Errorf("%s: pairs work: %v", policy, pairs)
			}
		}
	})
}
