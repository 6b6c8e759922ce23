package peercred

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// roleVariable makes this test binary act as one of the peers below.
const roleVariable = "LOCALPEER_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := play(role, os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// play connects, prints "ready" and keeps the socket until its input ends.
func play(role, network, address string) error {
	if role == "filtered" || role == "in-flight" {
		if err := confineSelf(); err != nil {
			return err
		}
	}
	if role == "unreadable" || role == "agent" {
		if role == "unreadable" {
			if err := confineSelf(); err != nil {
				return err
			}
		}
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return err
		}
	}
	conn, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	switch role {
	case "in-flight", "unconfined-in-flight":
		if err := hide(conn); err != nil {
			return err
		}
	case "thread":
		if err := moveToThread(conn); err != nil {
			return err
		}
	case "leaves-to-confined-child":
		file, err := conn.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			return err
		}
		child := exec.Command(os.Args[0], network, address)
		child.Env = append(os.Environ(), roleVariable+"=holds")
		child.Stdin, child.Stdout, child.Stderr, child.ExtraFiles = os.Stdin, os.Stdout, os.Stderr, []*os.File{file}
		return child.Start()
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func init() {
	// This runs before TestMain, because the socket is inherited and no connection is made.
	if os.Getenv(roleVariable) == "holds" {
		if err := confineSelf(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
}

// confineSelf sets no_new_privs and a seccomp filter that allows everything on all threads. A
// sandbox of the landlock backend has these too.
func confineSelf() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	program := unix.SockFprog{Len: 1, Filter: &allow}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if e != 0 {
		return e
	}
	return nil
}

// hide puts the connection into the queue of a socket pair and closes it.
func hide(conn net.Conn) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	file, err := conn.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(int(file.Fd())), nil, 0); err != nil {
		return err
	}
	return conn.Close()
}

// moveToThread gives a thread of a confined process its own descriptor table
// and closes the connection in all other threads.
func moveToThread(conn net.Conn) error {
	if err := confineSelf(); err != nil {
		return err
	}
	moved := make(chan error)
	go func() {
		runtime.LockOSThread()
		moved <- unix.Unshare(unix.CLONE_FILES)
		select {}
	}()
	if err := <-moved; err != nil {
		return err
	}
	return conn.Close()
}

// peer starts a peer and returns the server's end of its connection.
func peer(t *testing.T, l net.Listener, role string, change func(*exec.Cmd)) net.Conn {
	t.Helper()
	cmd := exec.Command(os.Args[0], l.Addr().Network(), l.Addr().String())
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(cmd)
	}
	err = cmd.Start()
	if cmd.SysProcAttr != nil && cmd.SysProcAttr.Cloneflags != 0 {
		testutil.Need(t, "namespaces for its users", err, unix.EPERM, unix.EACCES, unix.ENOSPC, unix.EINVAL)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the peer says %q, %v", line, err)
	}
	return conn
}

// listeners returns a listener of each kind.
func listeners(t *testing.T) map[string]net.Listener {
	t.Helper()
	all := make(map[string]net.Listener)
	for name, where := range map[string][2]string{
		"tcp4": {"tcp4", "127.0.0.1:0"}, "tcp6": {"tcp6", "[::1]:0"}, "unix": {"unix", filepath.Join(t.TempDir(), "s")},
	} {
		l, err := net.Listen(where[0], where[1])
		if err != nil {
			if name == "tcp6" && (errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL)) {
				continue // a machine without IPv6
			}
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		all[name] = l
	}
	return all
}

func refused(t *testing.T, conn net.Conn, word string) {
	t.Helper()
	uid, err := Identify(conn)
	var e *RefusedError
	if !errors.As(err, &e) || !strings.Contains(e.Reason, word) {
		t.Errorf("Identify = %d, %v; want a refusal with %q", uid, err, word)
	}
}

func TestPeerOfTheSameUserIsAdmitted(t *testing.T) {
	for name, l := range listeners(t) {
		t.Run(name, func(t *testing.T) {
			conn := peer(t, l, "plain", nil)
			if uid, err := Identify(conn); err != nil || uid != os.Geteuid() {
				t.Errorf("Identify = %d, %v", uid, err)
			}
			if uid, err := UserOf(conn); err != nil || uid != os.Geteuid() {
				t.Errorf("UserOf = %d, %v", uid, err)
			}
		})
	}
}

func TestMappedAddresses(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	testutil.Need(t, "IPv6", err, unix.EAFNOSUPPORT)
	defer unix.Close(fd)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	to := &unix.SockaddrInet6{Port: l.Addr().(*net.TCPAddr).Port}
	copy(to.Addr[:], net.IPv4(127, 0, 0, 1).To16())
	if err := unix.Connect(fd, to); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := Identify(conn); err != nil {
		t.Error(err)
	}
	// The tables in /proc give the same result as the socket diagnosis.
	at := plain(conn.RemoteAddr().(*net.TCPAddr).AddrPort())
	from := plain(conn.LocalAddr().(*net.TCPAddr).AddrPort())
	diagnosed, err := diagnoseTCP(at, from)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := lookUpTCP("/proc/self/net/tcp6", at, from)
	if err != nil || listed != diagnosed {
		t.Errorf("/proc/net/tcp6 has %v, %v; the socket diagnosis %v", listed, err, diagnosed)
	}
}

func TestTablesAgreeWithDiagnosis(t *testing.T) {
	for name, l := range listeners(t) {
		if name == "unix" {
			continue
		}
		conn := peer(t, l, "plain", nil)
		at := plain(conn.RemoteAddr().(*net.TCPAddr).AddrPort())
		from := plain(conn.LocalAddr().(*net.TCPAddr).AddrPort())
		diagnosed, err := diagnoseTCP(at, from)
		if err != nil {
			t.Fatal(err)
		}
		path := map[string]string{"tcp4": "/proc/self/net/tcp", "tcp6": "/proc/self/net/tcp6"}[name]
		if listed, err := lookUpTCP(path, at, from); err != nil || listed != diagnosed {
			t.Errorf("%s: the table has %v, %v; the socket diagnosis %v", name, listed, err, diagnosed)
		}
	}
}

func TestConfinedPeersAreRefused(t *testing.T) {
	namespaces := func(flags uintptr) func(*exec.Cmd) {
		return func(cmd *exec.Cmd) {
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  flags | unix.CLONE_NEWUSER,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
			}
		}
	}
	for name, l := range listeners(t) {
		for _, c := range []struct {
			role   string
			change func(*exec.Cmd)
			word   string
		}{
			{"filtered", nil, "seccomp"},
			{"leaves-to-confined-child", nil, ""},
			{"plain", namespaces(0), "user namespace"},
			{"plain", namespaces(unix.CLONE_NEWPID), "PID namespace"},
			{"plain", func(cmd *exec.Cmd) { cmd.Args[0] = "/usr/bin/" + launcherName }, "sandbox"},
		} {
			t.Run(name+"/"+c.role+"/"+c.word, func(t *testing.T) { refused(t, peer(t, l, c.role, c.change), c.word) })
		}
	}
}

// A confined process hides its socket so that no process's descriptors show it. The socket then
// seems to have no holder.
func TestHiddenSocketsAreRefused(t *testing.T) {
	for name, l := range listeners(t) {
		if name == "unix" {
			continue // the process that connected is known
		}
		for _, role := range []string{"in-flight", "unreadable", "thread"} {
			t.Run(name+"/"+role, func(t *testing.T) { refused(t, peer(t, l, role, nil), "") })
		}
	}
}

func TestPeersWithoutProcessAreRefused(t *testing.T) {
	for name, l := range listeners(t) {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], l.Addr().Network(), l.Addr().String())
			cmd.Env = append(os.Environ(), roleVariable+"=plain")
			if err := cmd.Run(); err != nil { // its input ends at once
				t.Fatal(err)
			}
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			refused(t, conn, "")
		})
	}
}

func TestOtherUsersAreRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to be another user")
	}
	const other = 54321
	for name, l := range listeners(t) {
		t.Run(name, func(t *testing.T) {
			if name == "unix" {
				path := l.Addr().String()
				for dir := path; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
					if err := os.Chmod(dir, 0o777); err != nil {
						t.Fatal(err)
					}
				}
			}
			// The test binary may be in a directory that the other user cannot enter.
			self, err := os.Open("/proc/self/exe")
			if err != nil {
				t.Fatal(err)
			}
			defer self.Close()
			conn := peer(t, l, "plain", func(cmd *exec.Cmd) {
				cmd.Path, cmd.ExtraFiles = "/proc/self/fd/3", []*os.File{self}
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: other, Gid: other}}
			})
			refused(t, conn, "user 54321")
		})
	}
}

// Simultaneous callers share scans, and each gets its own result.
func TestLooksAreShared(t *testing.T) {
	l := listeners(t)["tcp4"]
	good, bad := peer(t, l, "plain", nil), peer(t, l, "filtered", nil)
	results := make(chan error)
	const each = 16
	for range each {
		go func() {
			_, err := Identify(good)
			results <- err
		}()
		go func() {
			if _, err := Identify(bad); err == nil {
				results <- errors.New("a confined peer was admitted")
				return
			}
			results <- nil
		}()
	}
	for range 2 * each {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

// A peer whose process is not found is refused, although an unreadable process might hold its
// socket. Scenario: a command in the sandbox of another program sends its request and hides its
// socket, while the user runs an ssh-agent, which is unreadable.
func TestUnseenPeerBesideAnUnreadableProcess(t *testing.T) {
	l := listeners(t)["tcp4"]
	peer(t, l, "agent", nil)
	refused(t, peer(t, l, "unconfined-in-flight", nil), "no visible process")
}

// A connection that a program makes on behalf of another process is refused, whatever its address,
// and also if only the user is checked. Without the mark it would count as a connection of that
// program, which is not sandboxed.
func TestCarriedConnectionsAreRefused(t *testing.T) {
	names := map[string][]string{"tcp4": {"127.0.0.1", "127.3.2.1", "0.0.0.0", "[::ffff:127.0.0.1]"}, "tcp6": {"[::1]"}}
	for family, l := range listeners(t) {
		to := []string{l.Addr().String()}
		if family != "unix" {
			if family == "tcp4" {
				var err error
				if l, err = net.Listen("tcp4", "0.0.0.0:0"); err != nil {
					t.Fatal(err)
				}
				defer l.Close()
			}
			to = nil
			for _, name := range names[family] {
				to = append(to, fmt.Sprintf("%s:%d", name, l.Addr().(*net.TCPAddr).Port))
			}
		}
		for _, address := range to {
			t.Run(family+" "+address, func(t *testing.T) {
				client, err := (&net.Dialer{Control: Carried}).Dial(strings.TrimRight(family, "46"), address)
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				conn, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				refused(t, conn, "for another process")
				if uid, err := UserOf(conn); err == nil {
					t.Errorf("UserOf = %d; want an error", uid)
				}
			})
		}
	}
}

func BenchmarkIdentify(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	conn, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	for b.Loop() {
		if _, err := Identify(conn); err != nil {
			b.Fatal(err)
		}
	}
}
