package broker_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/pkg/testutil/machine"
	"golang.org/x/sys/unix"
)

func unixSocket(kind int) (int, error) { return unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0) }

// bound makes a socket with a name.
func bound(at string) (int, error) {
	fd, err := unixSocket(unix.SOCK_STREAM)
	if err != nil {
		return -1, err
	}
	return fd, unix.Bind(fd, &unix.SockaddrUnix{Name: at})
}

func connected(at string) error {
	fd, err := unixSocket(unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: at})
}

// socketsInside uses Unix sockets. The errors of what must work begin with "inside".
func socketsInside(string) map[string]syscall.Errno {
	results := make(map[string]syscall.Errno)
	for _, at := range []string{"socket", "d/socket", "@socket"} {
		name := at
		if at[0] == '@' {
			name = "./" + at // a file whose name begins so
		}
		server, err := bound(name)
		results["inside: bind "+at] = errno(err)
		results["inside: listen "+at] = errno(unix.Listen(server, 0))
		results["inside: connect "+at] = errno(connected(name))
		accepted, _, err := unix.Accept(server)
		results["inside: accept "+at] = errno(err)
		_ = unix.Close(accepted)
		// The queue has room for one more. A third connection waits until one is accepted.
		first, second := make(chan error), make(chan error)
		go func() { first <- connected(name) }()
		go func() { second <- connected(name) }()
		for _, done := range []chan error{first, second} {
			accepted, _, err := unix.Accept(server)
			results["inside: accept again "+at] = errno(err)
			_ = unix.Close(accepted)
			select {
			case err = <-done:
			case <-time.After(20 * time.Second):
				err = unix.ETIME
			}
			results["inside: connect again "+at] = errno(err)
		}
		_ = unix.Close(server)
		results["closed "+at] = errno(connected(name))
	}
	old := unix.Umask(0o077)
	server, err := bound("masked")
	unix.Umask(old)
	var st unix.Stat_t
	if err == nil {
		err = unix.Stat("masked", &st)
	}
	if err == nil && st.Mode&0o777 != 0o700 {
		err = unix.ERANGE
	}
	results["inside: the mode of a socket"] = errno(err)
	_ = unix.Close(server)
	for _, at := range []string{".git/socket", ".codex", ".Codex", "docs/secret/socket", "/etc/socket"} {
		_, err := bound(at)
		results["bind "+at] = errno(err)
	}
	results["connect to a socket outside"] = errno(connected("outside"))
	results["rename"] = errno(unix.Rename("outside", "moved"))
	results["connect to a socket outside by another name"] = errno(connected("moved"))
	// Put the socket of the host where the sandbox had its own.
	server, err = bound("mine")
	results["inside: bind mine"] = errno(err)
	results["inside: listen mine"] = errno(unix.Listen(server, 1))
	results["inside: rename"] = errno(unix.Rename("moved", "mine"))
	results["connect to a socket outside in place of one's own"] = errno(connected("mine"))
	abstract := &unix.SockaddrUnix{Name: "@codex-broker-test"}
	fd, err := unixSocket(unix.SOCK_STREAM)
	results["inside: socket"] = errno(err)
	results["bind an abstract name"] = errno(unix.Bind(fd, abstract))
	results["connect to an abstract name"] = errno(unix.Connect(fd, abstract))
	_, err = unixSocket(unix.SOCK_DGRAM)
	results["datagrams"] = errno(err)
	_, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	results["TCP"] = errno(err)
	return results
}

func TestUnixSocketsStayInside(t *testing.T) {
	eachVersion(t, func(t *testing.T, version int) {
		dir := workspace(t)
		before := snapshot(t, dir)
		server, err := bound(dir + "/outside")
		must(t, err)
		defer unix.Close(server)
		must(t, unix.Listen(server, 10))
		for name, got := range act(t, dir, version, "sockets") {
			want := []syscall.Errno{unix.EPERM, unix.EACCES}
			switch {
			case name == "rename" || strings.HasPrefix(name, "inside"):
				want = []syscall.Errno{0}
			case strings.HasPrefix(name, "closed"):
				want = []syscall.Errno{unix.ECONNREFUSED}
			}
			if !slices.Contains(want, got) {
				t.Errorf("%s: got %v, want one of %v", name, got, want)
			}
		}
		must(t, unix.SetNonblock(server, true))
		if fd, _, err := unix.Accept(server); err == nil {
			t.Errorf("a connection came to the socket outside: got descriptor %d, want none", fd)
		}
		if after := snapshot(t, dir); after != before {
			t.Errorf("what is protected has changed: got %s, want %s", after, before)
		}
	})
}

// hangUpInside closes the end of a connection that has connected, and waits until the other end sees that.
func hangUpInside(string) map[string]syscall.Errno {
	server, err := bound("socket")
	if err == nil {
		err = unix.Listen(server, 1)
	}
	if err == nil {
		err = connected("socket")
	}
	results := map[string]syscall.Errno{"connect": errno(err)}
	accepted, _, err := unix.Accept(server)
	results["accept"] = errno(err)
	results["set a timeout"] = errno(unix.SetsockoptTimeval(accepted, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20}))
	_, err = unix.Read(accepted, make([]byte, 1))
	results["read the end"] = errno(err)
	return results
}

// TestTheOtherEndSeesTheEndOfAConnection: the broker keeps copies of the command's Unix sockets, but none of a connected one.
func TestTheOtherEndSeesTheEndOfAConnection(t *testing.T) {
	machine.NeedLandlock(t, 2)
	for _, network := range []string{"restricted", "enabled"} {
		for name, got := range actWith(t, workspace(t), 6, "hang up", func(cmd *exec.Cmd) {
			for i, arg := range cmd.Args {
				cmd.Args[i] = strings.Replace(arg, `"network":"restricted"`, fmt.Sprintf(`"network":%q`, network), 1)
			}
		}) {
			if got != 0 {
				t.Errorf("network %s: %s: got %v, want success", network, name, got)
			}
		}
	}
}
