//go:build linux

package execenv_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execenv"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/wire/websocket"
)

// asServer is a variable that makes the test binary a server on stdin and stdout. Its value is
// the path of a file to which the server appends a line with its arguments.
const asServer = "EXECENV_TEST_SERVER"

func TestMain(m *testing.M) {
	if path := os.Getenv(asServer); path != "" {
		os.Exit(serveStdio(path))
	}
	os.Exit(m.Run())
}

func serveStdio(path string) int {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return 3
	}
	fmt.Fprintln(f, strings.Join(os.Args[1:], " "))
	_ = f.Close()
	srv, err := execserver.New(execserver.Options{})
	if err != nil {
		return 4
	}
	_ = srv.ServeConn(websocket.NewStdio(os.Stdin, os.Stdout, 0))
	_ = srv.Shutdown(context.Background())
	return 0
}

// started returns the lines of all started servers.
func started(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")[:strings.Count(string(text), "\n")]
}

// server is a real server whose connections can be counted, refused and cut. Its sessions end
// with their connections.
type server struct {
	url     string
	dials   atomic.Int32
	arrived chan struct{} // gets an element after each dial
	refuses atomic.Bool
	mu      sync.Mutex
	conns   []net.Conn
}

func newServer(t *testing.T) *server {
	t.Helper()
	exec, err := execserver.New(execserver.Options{SessionTTL: -1})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{url: "ws://" + l.Addr().String(), arrived: make(chan struct{}, 1)}
	web := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.dials.Add(1)
			select {
			case s.arrived <- struct{}{}:
			default:
			}
			if s.refuses.Load() {
				http.Error(w, "not now", http.StatusServiceUnavailable)
				return
			}
			exec.ServeHTTP(w, r)
		}),
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateHijacked {
				s.mu.Lock()
				s.conns = append(s.conns, c)
				s.mu.Unlock()
			}
		},
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = web.Serve(l) })
	t.Cleanup(func() {
		_ = web.Close()
		_ = exec.Shutdown(context.Background())
		serving.Wait()
	})
	return s
}

// cut breaks every connection.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

func (s *server) spec(id string) execenv.Spec {
	return execenv.Spec{ID: id, Kind: execenv.WebSocket, URL: s.url}
}

func open(t *testing.T, o execenv.Options, specs ...execenv.Spec) *execenv.Set {
	t.Helper()
	set := execenv.Open(execenv.Config{Default: specs[0].ID, Environments: specs}, o)
	t.Cleanup(func() { _ = set.Close() })
	return set
}

func get(t *testing.T, set *execenv.Set, id string) *execenv.Environment {
	t.Helper()
	e, err := set.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func client(t *testing.T, e *execenv.Environment) *execclient.Client {
	t.Helper()
	c, err := e.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fails waits until a client has failed.
func fails(t *testing.T, c *execclient.Client) {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the client does not fail")
	}
}

// together returns the results of n concurrent users.
func together(t *testing.T, e *execenv.Environment, n int) []*execclient.Client {
	t.Helper()
	clients := make([]*execclient.Client, n)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			var err error
			if clients[i], err = e.Client(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return clients
}

func TestOneConnectionForAll(t *testing.T) {
	s := newServer(t)
	e := get(t, open(t, execenv.Options{}, s.spec("x")), "x")
	clients := together(t, e, 16)
	if len(slices.Compact(clients)) != 1 || s.dials.Load() != 1 {
		t.Errorf("%d connections", s.dials.Load())
	}
	info, err := e.Info(t.Context())
	if err != nil || info.Shell.Path == "" {
		t.Errorf("info: %+v, %v", info, err)
	}
}

func TestURLsConnectInTheBackground(t *testing.T) {
	s := newServer(t)
	open(t, execenv.Options{}, s.spec("x"))
	select {
	case <-s.arrived:
	case <-time.After(20 * time.Second):
		t.Fatal("it does not connect by itself")
	}
}

func TestTheFirstFailureIsFinal(t *testing.T) {
	s := newServer(t)
	s.refuses.Store(true)
	e := get(t, open(t, execenv.Options{}, s.spec("x")), "x")
	_, first := e.Client(t.Context())
	var typed *execenv.ConnectError
	var dial *execclient.DialError
	if !errors.As(first, &typed) || !errors.As(first, &dial) || dial.Status != http.StatusServiceUnavailable ||
		!strings.HasPrefix(first.Error(), "exec-server connection attempt failed: failed to connect to exec-server websocket `") {
		t.Fatalf("got %v", first)
	}
	s.refuses.Store(false)
	if _, err := e.Client(t.Context()); err != first {
		t.Errorf("then %v", err)
	}
	if err := e.WaitReady(t.Context()); err != first || s.dials.Load() != 1 {
		t.Errorf("ready: %v after %d dials", err, s.dials.Load())
	}
}

func TestALostSessionIsReplaced(t *testing.T) {
	s := newServer(t)
	e := get(t, open(t, execenv.Options{}, s.spec("x")), "x")
	old := client(t, e)
	s.cut()
	fails(t, old) // the server does not know its session any more

	s.refuses.Store(true)
	var failed *execenv.ConnectError
	if _, err := e.Client(t.Context()); !errors.As(err, &failed) {
		t.Errorf("while the server refuses: %v", err)
	}
	if err := e.WaitReady(t.Context()); err != nil {
		t.Errorf("ready says %v, but at first it was", err)
	}
	s.refuses.Store(false)
	before := s.dials.Load()
	clients := together(t, e, 8)
	if len(slices.Compact(clients)) != 1 || clients[0] == old || clients[0].SessionID() == old.SessionID() || s.dials.Load() != before+1 {
		t.Errorf("%d dials for a new session", s.dials.Load()-before)
	}
	if _, err := e.Info(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestPrograms(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	starts := filepath.Join(t.TempDir(), "starts")
	set := open(t, execenv.Options{}, execenv.Spec{ID: "x", Kind: execenv.Stdio, Program: self, Args: []string{"a", "b"}, Env: []string{asServer + "=" + starts}})
	e := get(t, set, "x")
	if got := started(t, starts); len(got) != 0 {
		t.Fatalf("started before it is needed: %q", got)
	}
	clients := together(t, e, 8)
	if got := started(t, starts); len(slices.Compact(clients)) != 1 || !slices.Equal(got, []string{"a b"}) {
		t.Fatalf("started %q", got)
	}
	if err := clients[0].Close(); err != nil {
		t.Error(err)
	}
	again := client(t, e)
	if again != clients[0] || len(started(t, starts)) != 1 {
		t.Error("it was started again")
	}
	if _, err := e.Info(t.Context()); !errors.Is(err, execclient.ErrClosed) {
		t.Errorf("a call afterwards: %v", err)
	}
}

func TestTheLocalEnvironment(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	starts := filepath.Join(t.TempDir(), "starts")
	t.Setenv(asServer, starts)
	local := execenv.Spec{ID: execenv.LocalID, Kind: execenv.Local}
	if _, err := get(t, open(t, execenv.Options{SelfExe: self}, local), "local").Info(t.Context()); err != nil {
		t.Error(err)
	}
	if got := started(t, starts); !slices.Equal(got, []string{"exec-server --listen stdio --log-level warn"}) {
		t.Errorf("started %q", got)
	}
	for _, exe := range []string{"", "codex"} {
		err := get(t, open(t, execenv.Options{SelfExe: exe}, local), "local").WaitReady(t.Context())
		if !errors.Is(err, execenv.ErrNoRuntime) || !strings.HasSuffix(err.Error(), "exec-server protocol error: local environment requires configured runtime paths") {
			t.Errorf("with %q: %v", exe, err)
		}
	}
}

func TestCloseCancelsTheAttempt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	set := execenv.Open(execenv.Config{Environments: []execenv.Spec{{ID: "x", Kind: execenv.WebSocket, URL: "ws://" + l.Addr().String(), ConnectTimeout: time.Hour}}}, execenv.Options{})
	c, err := l.Accept() // and never answer
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	e := get(t, set, "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Client(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a user who gave up got %v", err)
	}
	waiting := make(chan error, 1)
	go func() { waiting <- e.WaitReady(t.Context()) }()
	if err := set.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waiting; !errors.Is(err, execenv.ErrClosed) {
		t.Errorf("who waited got %v", err)
	}
	if _, err := e.Client(t.Context()); !errors.Is(err, execenv.ErrClosed) {
		t.Errorf("afterwards: %v", err)
	}
	if _, err := set.Get("x"); !errors.Is(err, execenv.ErrClosed) {
		t.Errorf("of the set: %v", err)
	}
}

// TestAbsentEnvironments asks for an environment that the set does not have, and for
// the default of a set that has none.
func TestAbsentEnvironments(t *testing.T) {
	set := open(t, execenv.Options{}, newServer(t).spec("x"))
	var unknown *execenv.UnknownError
	if _, err := set.Get("z"); !errors.As(err, &unknown) || unknown.ID != "z" {
		t.Errorf("of no environment: %v", err)
	}
	none := execenv.Open(execenv.Config{}, execenv.Options{})
	defer none.Close()
	if _, err := none.Default(); !errors.Is(err, execenv.ErrNoDefault) {
		t.Errorf("without environments: %v", err)
	}
}
