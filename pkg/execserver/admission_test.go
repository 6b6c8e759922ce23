package execserver

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codex.internal/pkg/testutil/machine"
	"codex.internal/pkg/wire/digest"
	wire "codex.internal/pkg/wire/websocket"
	"github.com/gorilla/websocket"
)

// strangerVariable makes this test binary act as a client in another user namespace, as a
// confined command would.
const strangerVariable = "EXECSERVER_TEST_STRANGER"

func init() {
	url := os.Getenv(strangerVariable)
	if url == "" {
		return
	}
	ws, res, err := websocket.DefaultDialer.Dial(url, nil)
	if err == nil {
		_ = ws.Close()
		os.Exit(10)
	}
	if res != nil {
		text, _ := io.ReadAll(res.Body)
		_, _ = os.Stdout.WriteString(res.Status + " " + string(text))
	}
	os.Exit(0)
}

// stranger tries to connect from another user namespace.
func stranger(t *testing.T, url string) string {
	t.Helper()
	machine.NeedUserNamespaces(t)
	cmd := exec.Command(os.Args[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
	}
	cmd.Env = append(os.Environ(), strangerVariable+"="+url)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the stranger was let in: %v", err)
	}
	return string(out)
}

func TestConfinedClientsAreRefused(t *testing.T) {
	_, url := newTestServer(t, Options{})
	if said := stranger(t, url); !strings.HasPrefix(said, "403") || !strings.Contains(said, "--ws-auth") {
		t.Errorf("it was told %q", said)
	}
	hello(t, url)
}

// TestConfinedClientsAreRefusedInAMux: a server in the mux of another program, which does not
// pass the connection to it, refuses confined clients too.
func TestConfinedClientsAreRefusedInAMux(t *testing.T) {
	srv, _ := newTestServer(t, Options{})
	web := httptest.NewServer(srv)
	defer web.Close()
	url := "ws" + strings.TrimPrefix(web.URL, "http")
	if said := stranger(t, url); !strings.HasPrefix(said, "403") {
		t.Errorf("it was told %q", said)
	}
	ws, _, err := websocket.DefaultDialer.Dial(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	ws.Close()
}

// TestServerAtAPathOfAMux: a program may serve websockets at any path of its mux. The port of
// Serve accepts them at one path only.
func TestServerAtAPathOfAMux(t *testing.T) {
	srv, own := newTestServer(t, Options{})
	mux := http.NewServeMux()
	mux.Handle("/tools/exec", srv)
	mux.Handle("/stripped", http.StripPrefix("/stripped", srv))
	web := httptest.NewServer(mux)
	defer web.Close()
	for _, path := range []string{"/tools/exec", "/stripped"} {
		p, _ := hello(t, "ws"+strings.TrimPrefix(web.URL, "http")+path)
		p.ws.Close()
	}
	if _, res, err := websocket.DefaultDialer.Dial(own+"/elsewhere", nil); err == nil || res == nil || res.StatusCode != http.StatusNotFound {
		t.Errorf("the port of Serve at another path: %v", err)
	}
}

func TestUnixSocket(t *testing.T) {
	srv, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := wire.ListenUnix(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(context.Background(), l) })
	dialer := websocket.Dialer{NetDialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	ws, _, err := dialer.Dial("ws://localhost/", nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, ws: ws}
	var r struct{ SessionID string }
	p.call("initialize", object{"clientName": "t"}, &r)
	if r.SessionID == "" {
		t.Error("no session")
	}
	ws.Close()
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	serving.Wait()
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is still there")
	}
}

// TestSilentConnectionsMakeRoom: unauthenticated clients that send nothing, or never complete
// their request, cannot hold a connection for long. Together they hold at most waitingLimit
// connections.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	_, url := newTestServer(t, Options{})
	address := strings.TrimPrefix(url, "ws://")
	connect := func(text string) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(testTimeout))
		return c
	}
	first := connect("GET / HT")
	for range waitingLimit() {
		connect("")
	}
	if _, err := first.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("the oldest connection is still open: %v", err)
	}
	hello(t, url)
	for name, c := range map[string]net.Conn{
		"an answer":    connect("GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"),
		"a refusal":    connect("GET /none HTTP/1.1\r\nHost: x\r\n\r\n"),
		"a short body": connect("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"),
	} {
		all, err := io.ReadAll(c)
		if err != nil || !bytes.HasPrefix(all, []byte("HTTP/1.1 ")) {
			t.Errorf(`%s: got all %q, error %v; want no error, bytes.HasPrefix(all, []byte("HTTP/1.1 "))`, name, all, err)
		}
	}
}

// TestSessionsBelongToAPrincipal: a client of another principal cannot resume a session, and
// does not learn that it exists.
func TestSessionsBelongToAPrincipal(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	srv, url := newTestServer(t, Options{Logger: slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(b)
	}), &slog.HandlerOptions{Level: slog.LevelDebug}))})
	p, session := hello(t, url)
	as := func(principal string) *peer {
		t.Helper()
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, err := wire.Upgrade(w, r, wire.Options{}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			go func() { _ = srv.ServeConn(principalConn{c, principal}) }()
		}))
		t.Cleanup(web.Close)
		return dial(t, "ws"+strings.TrimPrefix(web.URL, "http"))
	}
	thief := as("user 12345678")
	for _, params := range []object{{"takeOver": true}, {"takeOver": false}, {}} {
		params["clientName"], params["resumeSessionId"] = "t", session
		thief.refuse("initialize", params, -32600, "unknown session id "+session)
	}
	p.start("p", "exit 3", object{})
	if _, code := p.closed("p"); code != 3 {
		t.Errorf("exit code %d", code)
	}
	p.ws.Close()
	awaitConns(t, srv, 1)
	thief.refuse("initialize", object{"clientName": "t", "resumeSessionId": session}, -32600, "unknown session id "+session)
	owner := as(userPrincipal(os.Geteuid()))
	owner.call("initialize", object{"clientName": "t", "resumeSessionId": session}, nil)
	thief.ws.Close()
	owner.ws.Close()
	awaitConns(t, srv, 0)
	mu.Lock()
	defer mu.Unlock()
	if text := log.String(); strings.Contains(text, session) || !strings.Contains(text, digest.Of(session)) {
		t.Errorf("the log names the session by its id: %s", text)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// principalConn is a connection of an authenticated client.
type principalConn struct {
	*wire.Conn
	principal string
}

func (c principalConn) Principal() string { return c.principal }
