package execserver

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/execserver/audit"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/wsauth"
	"github.com/gorilla/websocket"
)

// TestUnwritableTrailStopsWork: while the audit trail cannot be written, the server starts no
// session and no process and changes no file. Running work continues.
func TestUnwritableTrailStopsWork(t *testing.T) {
	dir := t.TempDir()
	key, err := audit.ReadKey(filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	trail, err := audit.Open(audit.Options{Path: filepath.Join(dir, "audit.log"), Key: key})
	if err != nil {
		t.Fatal(err)
	}
	_, url := newTestServer(t, Options{Audit: &observe.Audit{Log: trail}})
	p, _ := hello(t, url)
	p.start("before", "cat", object{"pipeStdin": true})
	if err := trail.Close(); err != nil { // from now on, writing an event fails
		t.Fatal(err)
	}
	const why = "the audit log cannot be written"
	p.refuse("process/start", startObject("after", "true"), -32603, why)
	file := filepath.Join(dir, "file")
	p.refuse("fs/writeFile", object{"path": "file://" + file, "dataBase64": "eA=="}, -32603, why)
	p.refuse("fs/open", object{"handleId": "h", "path": "file://" + file, "mode": "replace"}, -32603, why)
	p.refuse("tunnel/listen", object{"listenerId": 1, "host": "127.0.0.1", "port": 0, "window": 65536}, -32603, why)
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file was made: %v", err)
	}
	p.call("process/write", object{"processId": "before", "chunk": "eA=="}, nil)
	p.call("process/terminate", object{"processId": "before"}, nil)
	if out, _ := p.closed("before"); out != "x" && out != "" {
		t.Errorf(`got %q, want "x" or ""`, out)
	}
	if trail.Health().Lost == 0 {
		t.Error("the end of the process is not counted as lost")
	}
	for path, want := range map[string]int{"/readyz": http.StatusServiceUnavailable, "/livez": http.StatusOK, "/healthz": http.StatusOK} {
		res, err := http.Get("http" + strings.TrimPrefix(url, "ws") + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: got status %d, want %d", path, res.StatusCode, want)
		}
	}
}

// TestRefusalsAreInTheTrail: the trail records each request that the role or the ceiling of a
// token refuses, and each client without a valid token. A record has paths only if Audit.Paths
// is set.
func TestRefusalsAreInTheTrail(t *testing.T) {
	for _, paths := range []bool{false, true} {
		dir := t.TempDir()
		key, err := audit.ReadKey(filepath.Join(dir, "key.pem"))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "audit.log")
		trail, err := audit.Open(audit.Options{Path: path, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		roles := wsauth.OpenTokens(filepath.Join(dir, "tokens.json"))
		auth, err := wsauth.New(wsauth.Config{Mode: wsauth.CapabilityToken, TokensFile: roles.Path()})
		if err != nil {
			t.Fatal(err)
		}
		_, url := newTestServer(t, Options{Auth: auth, Audit: &observe.Audit{Log: trail, Paths: paths}})
		connect := func(spec wsauth.TokenSpec) *peer {
			spec.Name = "t"
			secret, _, err := roles.Create(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			ws, _, err := websocket.DefaultDialer.Dial(url, http.Header{"Authorization": {"Bearer " + secret}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { ws.Close() })
			p := &peer{t: t, ws: ws}
			p.initialize("")
			return p
		}
		reader := connect(wsauth.TokenSpec{Role: wsauth.RoleRead, Principal: "reader"})
		reader.refuse("process/start", startObject("p", "true"), -32600, "process/start needs a token with the role run")
		confined := connect(wsauth.TokenSpec{Role: wsauth.RoleRun, Principal: "confined", Ceiling: wsauth.Ceiling{Dir: dir}})
		confined.refuse("process/start", startObject("p", "true"), -32602, "the working directory / must lie in")
		for range 3 {
			if _, res, err := websocket.DefaultDialer.Dial(url, http.Header{"Authorization": {"Bearer wrong"}}); err == nil || res.StatusCode != http.StatusUnauthorized {
				t.Fatalf("got %v, want status %d", err, http.StatusUnauthorized)
			}
		}
		metrics, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http"+strings.TrimPrefix(url, "ws")+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		metrics.Header.Set("Authorization", "Bearer wrong")
		res, err := http.DefaultClient.Do(metrics)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if err := trail.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if err := new(audit.Verifier).File(bytes.NewReader(text), func(l *audit.Line) error {
			if strings.HasSuffix(l.Kind, ".refused") {
				if (l.Session == "") != (l.Kind == audit.EventClientRefused) || !strings.HasPrefix(l.Peer, "127.0.0.1:") {
					t.Errorf("got session %q, peer %q in %s", l.Session, l.Peer, l.Text)
				}
				got = append(got, fmt.Sprintf("%s %s %s %s %d", l.Kind, l.Principal, l.Method, l.Source, l.Count))
				if hasPath := strings.Contains(string(l.Text), dir); hasPath != (paths && l.Source == "ceiling") {
					t.Errorf("paths %v: got a path %v in %s", paths, hasPath, l.Text)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"request.refused principal reader process/start role 1", "request.refused principal confined process/start ceiling 1",
			"client.refused    1", "client.refused    3",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got refusals %q, want %q", got, want)
		}
	}
}

// TestAuditedHTTP: the trail records HTTP requests of clients, without their paths. If the
// trail cannot be written, the server makes no request.
func TestAuditedHTTP(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	dir := t.TempDir()
	key, err := audit.ReadKey(filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "audit.log")
	trail, err := audit.Open(audit.Options{Path: path, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { made++ }))
	defer s.Close()
	_, url := newTestServer(t, Options{Audit: &observe.Audit{Log: trail}})
	p, _ := hello(t, url)
	request := object{"requestId": "r", "method": "GET", "url": s.URL + "/private?key=private", "headers": []object{}}
	p.call("http/request", request, nil)
	if err := trail.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(text), "private") || !strings.Contains(string(text), `"event":"http.request"`) ||
		!strings.Contains(string(text), `"method":"GET","protocol":"http","host":"127.0.0.1","port":`) {
		t.Errorf(`got error %v, text %s; want no error, text without "private", text with %q, text with %q`, err, text, `"event":"http.request"`, `"method":"GET","protocol":"http","host":"127.0.0.1","port":`)
	}
	p.refuse("http/request", request, -32603, "the audit log cannot be written")
	if made != 1 {
		t.Errorf("%d requests were made", made)
	}
}

// TestAuditedTunnels: the trail records tunnels, and marks those to Unix sockets. It has the
// paths of the sockets only if configured.
func TestAuditedTunnels(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	for _, paths := range []bool{false, true} {
		dir := t.TempDir()
		key, err := audit.ReadKey(filepath.Join(dir, "key.pem"))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "audit.log")
		trail, err := audit.Open(audit.Options{Path: file, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		_, url := newTestServer(t, Options{Audit: &observe.Audit{Log: trail, Paths: paths}})
		p, _ := hello(t, url)
		p.call("tunnel/open", object{"tunnelId": 1, "port": 1, "window": 65536}, nil)
		socket := filepath.Join(dir, "socket")
		p.call("tunnel/open", object{"tunnelId": 3, "path": "file://" + socket, "window": 65536}, nil)
		if err := trail.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		want := `,"host":"unix","prev"`
		if paths {
			want = `,"paths":["` + socket + `"],"host":"unix","prev"`
		}
		if err != nil || !strings.Contains(string(text), `,"host":"localhost","port":1,"prev"`) || !strings.Contains(string(text), want) {
			t.Errorf("got error %v, text %s; want no error, text with %q, text with %q", err, text, `,"host":"localhost","port":1,"prev"`, want)
		}
	}
}
