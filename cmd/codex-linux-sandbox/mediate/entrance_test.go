package mediate

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/pkg/testutil/machine"
	"golang.org/x/sys/unix"
)

// inNetwork is set in the process that has a network of its own for TestPeerIsWhatWasNamed.
const inNetwork = "TEST_IN_NETWORK"

// TestPeerIsWhatWasNamed: getpeername returns the address and the port to which a program has connected. It once returned port 1.
func TestPeerIsWhatWasNamed(t *testing.T) {
	if os.Getenv(inNetwork) != "" {
		checkPeers(t)
		return
	}
	machine.NeedUserNamespaces(t)
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inNetwork+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("in a network of its own: %v\n%s", err, out)
	}
}

// checkPeers connects as the launcher does for a command.
func checkPeers(t *testing.T) {
	raise(t)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	r, err := NewRedirect(pair[1])
	must(t, err)
	defer r.Release()
	p := initproc.New()
	r.Catch(p)
	p.Do("end", "", unix.SYS_EXIT_GROUP, initproc.Val(0))
	must(t, initproc.RunAlone(p, unix.CLONE_FILES))
	fixed := r.Fixed
	r.Fixed[1] = -1 // begin closes it
	r.begin(fixed[0], fixed[1], fixed[2])

	for _, to := range []string{"93.184.216.34:443", "[::ffff:93.184.216.34]:22", "[2606:4700::1111]:443", "127.0.0.1:53"} {
		if got := peer(t, r, to); got != strings.Replace(to, "[::ffff:93.184.216.34]", "93.184.216.34", 1) {
			t.Errorf("connected to %s: the peer is %s", to, got)
		}
	}
	var several sync.WaitGroup
	for range maxEntrances {
		several.Go(func() {
			if got := peer(t, r, "198.51.100.7:8080"); got != "198.51.100.7:8080" {
				t.Errorf("connected to 198.51.100.7:8080 at the same time: the peer is %s", got)
			}
		})
	}
	several.Wait()
	if len(r.entrances) != 0 {
		t.Errorf("%d entrances are left", len(r.entrances))
	}
	// An entrance does not occupy the port, and a command that listens on it still reaches other hosts.
	l, err := net.Listen("tcp4", "0.0.0.0:8080")
	must(t, err)
	defer l.Close()
	if got := peer(t, r, "203.0.113.9:8080"); got != "203.0.113.9:1" {
		t.Errorf("connected to a port that the command itself listens on: the peer is %s, want port 1", got)
	}
}

// peer connects a socket through the redirection and returns its peer.
func peer(t *testing.T, r *Redirect, address string) string {
	family := unix.AF_INET
	if address[0] == '[' {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	conn := &connection{socket: fd, file: -1, address: socketAddress(address)}
	errno, done := r.redirected(conn)
	r.leave(conn.entrance)
	if errno != 0 || !done {
		t.Errorf("connect to %s: %v, redirected: %v", address, errno, done)
		return ""
	}
	name, err := unix.Getpeername(fd)
	must(t, err)
	end := endpointOf(name)
	a := net.TCPAddr{IP: net.IP(end.Address[:]), Port: int(end.Port)}
	return a.String()
}

// raise brings the loopback interface up.
func raise(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	must(t, err)
	request.SetUint16(unix.IFF_UP)
	must(t, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
