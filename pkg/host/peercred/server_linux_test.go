package peercred

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// asUser calls f on a thread with the id of a user. Other threads are not changed.
func asUser(t *testing.T, uid int, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	become := func(uid int) {
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); e != 0 {
			t.Fatalf("setresuid to %d: got error %v", uid, e)
		}
	}
	own := os.Geteuid()
	become(uid)
	f()
	become(own)
}

// TestServerOf: a client finds out to whose server it has connected, even before the server has
// accepted the connection.
func TestServerOf(t *testing.T) {
	users := []int{os.Geteuid()}
	if users[0] == 0 {
		users = append(users, 54321)
	}
	for _, uid := range users {
		dir := t.TempDir()
		for parent := dir; parent != os.TempDir() && parent != "/"; parent = filepath.Dir(parent) {
			if err := os.Chmod(parent, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "tcp": ":0", "unix": filepath.Join(dir, "s")} {
			var l net.Listener
			var err error
			asUser(t, uid, func() { l, err = net.Listen(network, address) })
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			to := l.Addr().String()
			if network == "tcp" {
				_, port, _ := net.SplitHostPort(to)
				to = "127.0.0.1:" + port
			}
			conn, err := net.Dial(network, to)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if got, err := ServerOf(conn); err != nil || got != uid {
				t.Errorf("%s of user %d, not accepted: %d, %v", network, uid, got, err)
			}
			var accepted net.Conn
			asUser(t, uid, func() { accepted, err = l.Accept() })
			if err != nil {
				t.Fatal(err)
			}
			if got, err := ServerOf(conn); err != nil || got != uid {
				t.Errorf("%s of user %d, accepted: %d, %v", network, uid, got, err)
			}
			_ = accepted.Close()
			_ = l.Close()
			if got, err := ServerOf(conn); network != "unix" && err == nil {
				t.Errorf("%s, closed: %d", network, got)
			}
			if tcp, ok := l.Addr().(*net.TCPAddr); ok && network == "tcp4" {
				l, err := net.Listen("tcp4", to)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				// The tables of /proc give the same result as the socket diagnosis.
				diagnosed, err := diagnoseTCP(plain(tcp.AddrPort()), netip.AddrPort{})
				listed, failed := lookUpTCP("/proc/self/net/tcp", plain(tcp.AddrPort()), netip.AddrPort{})
				if err != nil || failed != nil || listed != diagnosed {
					t.Errorf("the table has %v, %v; the socket diagnosis %v, %v", listed, failed, diagnosed, err)
				}
			}
		}
	}
}
