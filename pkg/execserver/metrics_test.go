package execserver

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/testutil"
)

// scrape returns the answer of a server's port to a request for metrics.
func scrape(t *testing.T, url string, header http.Header) (status int, text string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http"+strings.TrimPrefix(url, "ws")+observe.MetricsPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// wantMetrics fails the test unless the metrics have each of the lines.
func wantMetrics(t *testing.T, url string, lines ...string) {
	t.Helper()
	testutil.Eventually(t.Context(), t, "all metrics", func() (string, bool) {
		_, text := scrape(t, url, http.Header{})
		missing := ""
		for _, line := range lines {
			if !strings.Contains(text, "\n"+line+"\n") {
				missing += line + "\n"
			}
		}
		return "without\n" + missing + "in\n" + text, missing == ""
	})
}

func TestMetrics(t *testing.T) {
	opts := Options{MaxProcesses: 2, MaxHandles: 1, MaxConnections: 2, Version: "1.2.3"}
	_, url := newTestServer(t, opts)
	p, session := hello(t, url)
	dir := t.TempDir()
	p.start("good", "printf 12345", nil)
	p.closed("good")
	p.start("bad", "exit 3", nil)
	p.closed("bad")
	p.start("long", "cat", object{"pipeStdin": true})
	p.call("process/write", object{"processId": "long", "chunk": "YWJj"}, nil)
	p.start("long2", "cat", object{"pipeStdin": true})
	p.refuse("process/start", object{"processId": "third", "argv": []string{"true"}, "cwd": "file:///", "env": object{}, "tty": false}, -32603, "--max-processes")
	p.refuse("fs/readFile", object{"path": "file://" + filepath.Join(dir, "missing")}, -32004, "")
	p.refuse("no/such/method", object{}, -32601, "no/such")
	wantMetrics(t, url,
		`exec_server_connections_active{transport="websocket"} 1`, `exec_server_connections_total{transport="websocket"} 1`,
		`exec_server_sessions_total 1`, `exec_server_sessions_active{state="attached"} 1`,
		`exec_server_requests_total{method="process/start",result="ok"} 4`, `exec_server_requests_total{method="process/start",result="error"} 1`,
		`exec_server_request_duration_seconds_count{method="process/start",result="ok"} 4`,
		`exec_server_requests_total{method="fs/readFile",result="error"} 1`, `exec_server_requests_total{method="unknown",result="error"} 1`,
		`exec_server_requests_total{method="fs/writeFile",result="ok"} 0`,
		`exec_server_processes_active{state="running"} 2`, `exec_server_processes_started_total{sandbox="none"} 4`,
		`exec_server_processes_finished_total{result="success"} 1`, `exec_server_processes_finished_total{result="failure"} 1`,
		`exec_server_process_duration_seconds_count 2`,
		`exec_server_process_bytes_total{stream="stdin"} 3`, `exec_server_process_bytes_total{stream="stdout"} 8`,
		`exec_server_limit_reached_total{limit="processes"} 1`, `exec_server_limit_reached_total{limit="connections"} 0`,
		`exec_server_limit{limit="connections"} 2`, `exec_server_limit_used{limit="connections"} 1`, `exec_server_limit_used{limit="memory"} 0`,
	)
	_, text := scrape(t, url, http.Header{})
	for _, secret := range []string{session, `"long"`, dir, "no/such"} {
		if strings.Contains(text, secret) {
			t.Errorf("the metrics have %q", secret)
		}
	}
	if !strings.Contains(text, `codex_build_info{version="1.2.3"`) || strings.Contains(text, "exec_server_received_bytes_total 0\n") ||
		strings.Contains(text, "exec_server_sent_bytes_total 0\n") {
		t.Errorf("got %v; want a text with %q, a text without %q, a text without %q", text, `codex_build_info{version="1.2.3"`, "exec_server_received_bytes_total 0\n", "exec_server_sent_bytes_total 0\n")
	}
	p.ws.Close()
	wantMetrics(t, url, `exec_server_connections_active{transport="websocket"} 0`, `exec_server_sessions_active{state="detached"} 1`)
}

// TestReboundNamesAreRefused: a web page whose name resolves to this machine (DNS rebinding)
// sends no Origin, and its requests come from a process of the user. The server refuses it on
// every path.
func TestReboundNamesAreRefused(t *testing.T) {
	_, url := newTestServer(t, Options{})
	for _, path := range []string{observe.MetricsPath, "/status", "/"} {
		for host, refused := range map[string]bool{"rebound.example": true, "localhost.rebound.example:1": true, "localhost": false, "127.0.0.1:1": false, "[::1]:1": false} {
			req, err := http.NewRequest(http.MethodGet, "http"+strings.TrimPrefix(url, "ws")+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host, req.Close = host, true
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if (res.StatusCode == http.StatusForbidden) != refused || refused && strings.Contains(string(text), "exec_server") {
				t.Errorf("%s of %s: %d, %q", path, host, res.StatusCode, text)
			}
		}
	}
}

// TestMetricsNeedAToken: on the listening port, only clients that could connect get the
// metrics. The handler from Metrics serves all requests except those of web pages.
func TestMetricsNeedAToken(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	auth, err := wsauth.New(wsauth.Config{Mode: wsauth.CapabilityToken, TokenFile: token})
	if err != nil {
		t.Fatal(err)
	}
	srv, url := newTestServer(t, Options{Auth: auth})
	if status, text := scrape(t, url, http.Header{}); status != http.StatusUnauthorized || strings.Contains(text, "exec_server") {
		t.Errorf("without a token: %d %s", status, text)
	}
	status, text := scrape(t, url, http.Header{"Authorization": {"Bearer " + secret}})
	if status != http.StatusOK || !strings.Contains(text, `exec_server_connections_refused_total{status="401"} 1`) {
		t.Errorf("with the token: %d %s", status, text)
	}
	for _, tt := range []struct {
		method, path, origin string
		status               int
	}{
		{"GET", "/metrics", "", 200}, {"HEAD", "/metrics", "", 200}, {"POST", "/metrics", "", 405}, {"GET", "/", "", 404},
		{"GET", "/metrics", "http://x", 403},
	} {
		r := httptest.NewRequest(tt.method, tt.path, nil)
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		w := httptest.NewRecorder()
		srv.Metrics().ServeHTTP(w, r)
		if w.Code != tt.status {
			t.Errorf("%s %s %s: got %d, want %d", tt.method, tt.path, tt.origin, w.Code, tt.status)
		}
	}
}

// logText is a writer whose text can be read during the test.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestEndOfProcessIsLogged: the log has the end of each process, and how it ended.
func TestEndOfProcessIsLogged(t *testing.T) {
	var log logText
	_, url := newTestServer(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	p, _ := hello(t, url)
	p.start("p1", "printf 12345; exit 3", nil)
	p.closed("p1")
	testutil.Eventually(t.Context(), t, "a record", func() (string, bool) { return log.String(), strings.Contains(log.String(), "process ended") })
	for line := range strings.Lines(log.String()) {
		if !strings.Contains(line, "process ended") {
			continue
		}
		for _, want := range []string{"level=INFO", "process=p1", "exit_code=3", "bytes_in=0", "bytes_out=5", "duration="} {
			if !strings.Contains(line, want) {
				t.Errorf("%s is missing in %s", want, line)
			}
		}
	}
}
