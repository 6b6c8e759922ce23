package escape

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"codex.internal/pkg/testutil/machine"
	"golang.org/x/sys/unix"
)

// TestHandedSockets: a socket belongs to the network in which it was created. A process outside passes some sockets to the
// command over an inherited Unix socket. If the launcher makes the connections, it connects no socket of another network.
// Otherwise the command receives no socket.
func TestHandedSockets(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		stream, packets, datagrams := p.ws+"/s", p.ws+"/p", p.ws+"/d"
		arrived := hostServer(t, unix.SOCK_STREAM, stream)
		hostServer(t, unix.SOCK_SEQPACKET, packets)
		hostServer(t, unix.SOCK_DGRAM, datagrams)
		for _, name := range []string{stream, packets, datagrams} {
			must(t, unix.Lchown(name, p.uid, p.uid))
		}
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		must(t, err)
		defer l.Close()
		reached := []string{stream, packets, strconv.Itoa(l.Addr().(*net.TCPAddr).Port)}
		run := func(cmd *exec.Cmd) outcome {
			t.Helper()
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			must(t, err)
			var fds []int
			for _, kind := range [][2]int{
				{unix.AF_UNIX, unix.SOCK_STREAM}, {unix.AF_UNIX, unix.SOCK_SEQPACKET}, {unix.AF_INET, unix.SOCK_STREAM}, {unix.AF_UNIX, unix.SOCK_DGRAM},
			} {
				fd, err := unix.Socket(kind[0], kind[1]|unix.SOCK_CLOEXEC, 0)
				must(t, err)
				defer unix.Close(fd)
				fds = append(fds, fd)
			}
			must(t, unix.Sendmsg(pair[1], []byte{1}, unix.UnixRights(fds...), nil, 0))
			defer unix.Close(pair[1])
			stdin := os.NewFile(uintptr(pair[0]), "stdin")
			defer stdin.Close()
			cmd.Stdin = stdin
			return p.finish(cmd)
		}
		command := func(profile string, to ...string) *exec.Cmd {
			ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
			t.Cleanup(cancel)
			return p.command(ctx, backend, profile, append([]string{"handed sockets"}, to...)...)
		}
		outside := p.command(t.Context(), "", "", append([]string{"handed sockets"}, append(reached, datagrams)...)...)
		if o := run(outside); len(o.breaches()) != len(reached)+1 {
			t.Errorf("outside of a sandbox: got %v, want %d breaches", o, len(reached)+1)
		}
		before := countedNow(t, stream, arrived)
		contained(t, run(command(p.readOnly(), append(reached, datagrams)...)))
		contained(t, run(command(p.opened(), reached...)))
		if backend != machine.Landlock {
			other := command(p.opened(), append(reached, datagrams)...)
			other.Args = append([]string{p.attacker, "supervised"}, other.Args...)
			other.Path = p.attacker
			contained(t, run(other))
			for _, supervised := range []bool{false, true} {
				proxied := command(p.opened(), reached...)
				proxied.Args = append([]string{p.launcher, "--allow-network-for-proxy"}, proxied.Args[1:]...)
				proxied.Env = append(proxied.Env, "HTTP_PROXY=http://127.0.0.1:9")
				if supervised {
					proxied.Args, proxied.Path = append([]string{p.attacker, "supervised"}, proxied.Args...), p.attacker
				}
				contained(t, run(proxied))
			}
		}
		if n := countedNow(t, stream, arrived) - 1; n != before {
			t.Errorf("%d connections have arrived", n-before)
		}
	})
}

// TestConfinedFurther: the launcher makes no connection for a process in the sandbox that has forbidden itself connections by
// Landlock. It still makes those of a process that has restricted only its access to files.
func TestConfinedFurther(t *testing.T) {
	machine.NeedLandlock(t, 6)
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		contained(t, p.run("", "", "confined further", "connections"))
		contained(t, p.run(backend, p.opened(), "confined further", "connections"))
		if o := p.run(backend, p.opened(), "confined further", "files"); len(o.breaches()) != 3 {
			t.Errorf("with files confined only: got %v, want 3 connections", o)
		}
	})
}

// TestBlockedConnections: processes that wait for a listener whose backlog is full do not prevent others from
// connecting, neither while they wait nor after they were killed.
func TestBlockedConnections(t *testing.T) {
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		if o := p.run(backend, p.opened(), "blocked connections"); o.text != "done\n" || o.code != 0 {
			t.Errorf("got %v; want o.text %q, o.code 0", o, "done\n")
		}
	})
}
