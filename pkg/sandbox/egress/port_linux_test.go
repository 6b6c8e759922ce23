package egress

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// TestPortsCloseForAll: after a proxy has closed, its ports accept no connection, even while a
// child that is just being started still has copies of their descriptors.
func TestPortsCloseForAll(t *testing.T) {
	x := testProxy(t, Options{}, local(), Hooks{})
	for _, l := range []net.Listener{x.web, x.socks} {
		copied, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		defer copied.Close()
	}
	x.Close()
	for _, l := range []net.Listener{x.web, x.socks} {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: got error %v, want %v", l.Addr(), err, syscall.ECONNREFUSED)
		}
	}
}
