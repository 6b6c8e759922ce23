package harness

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Echo starts a server that echoes its input until the end of the test, and returns the server's port.
func Echo(t testing.TB) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { ServeEcho(l) })
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

// ServeEcho echoes the data of a listener's connections. It returns when the listener is closed and
// all connections have ended.
func ServeEcho(l net.Listener) {
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		serving.Go(func() {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		})
	}
}
