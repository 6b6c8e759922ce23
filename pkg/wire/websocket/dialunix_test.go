package websocket

import (
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"
)

func TestDialAUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b")
	address := "unix://" + filepath.ToSlash(filepath.Dir(path)) + "/a%20b"
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 1)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Host + r.URL.Path + r.Header.Get("Authorization")
		if c, err := new(gorilla.Upgrader).Upgrade(w, r, nil); err == nil {
			_ = c.Close()
		}
	})}
	go func() { _ = srv.Serve(l) }()
	// A proxy is not used for connections within this machine.
	t.Setenv("HTTP_PROXY", "http://192.0.2.1:1")
	options := DialOptions{Header: http.Header{"Authorization": {" given"}}, Timeout: time.Minute, Buffer: 4 << 10}
	c, err := Dial(t.Context(), address, options)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close(CloseNormal, "")
	if got := <-seen; got != "localhost/ given" && got != "localhost/given" {
		t.Errorf("the server saw %q", got)
	}
	_ = srv.Close()
	var failed *DialError
	if _, err := Dial(t.Context(), address, options); !errors.As(err, &failed) || failed.URL != address {
		t.Errorf("nobody listens: %v", err)
	}
	for _, other := range []string{"unix://host/path", "unix:path", "unix://", "unix:///x?y", "ws:///path", "/path"} {
		if path, ok := SocketPath(other); ok {
			t.Errorf("%s: got %q, want ok false", other, path)
		}
	}
}
