package rendezvous

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codex.internal/pkg/testutil"
)

// serveWaiting runs a service in which limit connections may wait for a signed
// URL.
func serveWaiting(t *testing.T, limit int) net.Listener {
	t.Helper()
	s, err := New(t.Context(), Options{Tokens: newTokens(t)})
	if err != nil {
		t.Fatal(err)
	}
	s.maxWaiting = limit
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(context.Background(), l, nil) })
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		serving.Wait()
	})
	return l
}

// idleConnections makes connections from an address and sends nothing on them.
func idleConnections(t *testing.T, l net.Listener, from string, n int) []net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	var idle []net.Conn
	for range n {
		c, err := d.Dial("tcp", l.Addr().String())
		testutil.Need(t, "loopback address "+from, err, syscall.EADDRNOTAVAIL)
		t.Cleanup(func() { _ = c.Close() })
		idle = append(idle, c)
	}
	return idle
}

// TestConnectionsThatWait opens as many idle connections as permitted. A request on a new
// connection is still answered.
func TestConnectionsThatWait(t *testing.T) {
	const limit = 8
	l := serveWaiting(t, limit)
	idle := idleConnections(t, l, "127.0.0.1", 2*limit)
	res, err := http.Get("http://" + l.Addr().String() + "/healthz")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("got res %v, error %v; want no error, res.StatusCode %v", res, err, http.StatusOK)
	}
	_ = res.Body.Close()
	// The first connections have been closed.
	for _, c := range idle[:limit] {
		_ = c.SetReadDeadline(time.Now().Add(answerTime / 2))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("an old connection is still there: %v", err)
		}
	}
}

// TestConnectionsThatWaitElsewhere: if one address has many idle connections, no connections of
// another address are closed.
func TestConnectionsThatWaitElsewhere(t *testing.T) {
	const limit = 8
	l := serveWaiting(t, limit)
	slow := idleConnections(t, l, "127.0.0.1", 1)[0]
	flood := idleConnections(t, l, "127.0.0.2", 4*limit)
	// The last connection is served, so all earlier ones have been accepted.
	last := flood[len(flood)-1]
	for _, c := range []net.Conn{last, slow} {
		_ = c.SetDeadline(time.Now().Add(answerTime))
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(c); !strings.HasPrefix(string(text), "HTTP/1.1 200") {
			t.Errorf("from %v: %q, %v", c.LocalAddr(), text, err)
		}
	}
}
