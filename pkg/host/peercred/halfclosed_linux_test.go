package peercred

import (
	"net"
	"os"
	"testing"
)

// TestUserOfHalfClosed: a client that has closed only its sending direction is still identified. A
// client that has closed its socket is not.
func TestUserOfHalfClosed(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if uid, err := UserOf(conn); err != nil || uid != os.Geteuid() {
		t.Errorf("half closed: user %d, %v", uid, err)
	}
	_ = client.Close()
	if uid, err := UserOf(conn); err == nil {
		t.Errorf("closed: user %d", uid)
	}
}
