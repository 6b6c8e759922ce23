package websocket

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWaitingConnectionsDisplaceTheirOwn: a source with many connections loses its oldest one,
// and no other source loses any.
func TestWaitingConnectionsDisplaceTheirOwn(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var next string
	l := LimitWaiting(inner, 3, func(net.Conn) string { return next })
	defer l.Close()
	connect := func(source string) (client, server net.Conn) {
		t.Helper()
		next = source
		client, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		server, err = l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() })
		return client, server
	}
	open := func(server net.Conn) bool {
		_ = server.SetReadDeadline(time.Unix(1, 0)) // end the read at once
		_, err := server.Read(make([]byte, 1))
		return !strings.Contains(err.Error(), "closed")
	}
	_, quiet := connect("quiet")
	_, a := connect("loud")
	_, b := connect("loud")
	clientC, c := connect("loud")
	if !open(quiet) || open(a) || !open(b) || !open(c) {
		t.Error("not the oldest of the loudest was closed")
	}
	Admit(c)
	Admit(c) // calling it again has no effect
	_, d := connect("loud")
	if !open(b) || !open(d) {
		t.Error("a connection that was admitted is counted")
	}
	for range 5 {
		connect("louder")
	}
	if _, err := clientC.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Errorf("a connection that was admitted has been closed: %v", err)
	}
}

// shortListener returns errors from its first calls of Accept.
type shortListener struct {
	net.Listener
	errs []error
}

func (l *shortListener) Accept() (net.Conn, error) {
	if len(l.errs) == 0 {
		return l.Listener.Accept()
	}
	err := l.errs[0]
	l.errs = l.errs[1:]
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
}

// TestAcceptDuringShortage: a temporary shortage of memory or descriptors does not end a
// server.
func TestAcceptDuringShortage(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	short := &shortListener{inner, []error{syscall.ENOMEM, syscall.ENOBUFS, syscall.EMFILE, syscall.ENFILE}}
	s := NewHTTPServer(http.NotFoundHandler())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(LimitWaiting(short, 3, nil)) }()
	r, err := http.Get("http://" + inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	_ = s.Close()
	if err := <-ended; err != http.ErrServerClosed || r.StatusCode != http.StatusNotFound {
		t.Errorf("got error %v, r.Status %v; want error %v, r.StatusCode %v", err, r.Status, http.ErrServerClosed, http.StatusNotFound)
	}
}
