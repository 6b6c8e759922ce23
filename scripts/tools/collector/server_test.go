package collector

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// patience bounds waits for events that must come.
const patience = 30 * time.Second

// codex returns the path of the program.
func codex(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("CODEX_TEST_PROGRAMS")
	if dir == "" {
		t.Fatal("CODEX_TEST_PROGRAMS is not set: run scripts/collector")
	}
	return filepath.Join(dir, "codex")
}

// server is a running codex exec-server.
type server struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	said said
}

// said is the output of a server. It may be read while the server runs.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// start starts a server that exports to an endpoint.
func start(t *testing.T, endpoint string, env ...string) *server {
	t.Helper()
	s := &server{t: t, cmd: exec.Command(codex(t), "exec-server", "--listen", "ws://127.0.0.1:0", "--trace-commands")}
	s.cmd.Env = append(append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "HOME="+t.TempDir(), "XDG_STATE_HOME="+t.TempDir()), env...)
	s.cmd.Stderr = &s.said
	out, err := s.cmd.StdoutPipe()
	must(t, err)
	must(t, s.cmd.Start())
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		if t.Failed() {
			t.Log(s.said.String())
		}
	})
	defer time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() }).Stop()
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	s.url = strings.TrimSpace(line)
	return s
}

// end ends the server normally, and returns how long that took.
func (s *server) end() time.Duration {
	s.t.Helper()
	began := time.Now()
	must(s.t, s.cmd.Process.Signal(syscall.SIGTERM))
	defer time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() }).Stop()
	must(s.t, s.cmd.Wait())
	return time.Since(began)
}

// count returns a counter of spans that were exported, or that were dropped for a reason.
func (s *server) count(metric string) int {
	s.t.Helper()
	web := http.Client{Timeout: patience}
	res, err := web.Get("http" + strings.TrimPrefix(s.url, "ws") + "/metrics")
	must(s.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(s.t, err)
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(metric) + ` (\d+)$`).FindSubmatch(text)
	if m == nil {
		s.t.Fatalf("%s is missing in\n%s", metric, text)
	}
	n, err := strconv.Atoi(string(m[1]))
	must(s.t, err)
	return n
}

const (
	exported = "exec_server_spans_exported_total"
	full     = `exec_server_spans_dropped_total{reason="queue_full"}`
	failed   = `exec_server_spans_dropped_total{reason="export_failed"}`
)

// await polls until done returns true.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}

// client sends and receives messages of the protocol.
type client struct {
	t  *testing.T
	ws *websocket.Conn
	id int
}

func (s *server) connect() *client {
	s.t.Helper()
	ws, _, err := websocket.Dial(s.t.Context(), s.url, nil)
	must(s.t, err)
	s.t.Cleanup(func() { _ = ws.CloseNow() })
	c := &client{t: s.t, ws: ws}
	c.call("initialize", `{"clientName":"collector"}`, "")
	c.write(`{"method":"initialized"}`)
	return c
}

func (c *client) write(text string) {
	c.t.Helper()
	must(c.t, c.ws.Write(c.t.Context(), websocket.MessageText, []byte(text)))
}

// answer is the answer to a request.
type answer struct {
	ID     int
	Result map[string]any
	Error  map[string]any
}

// call makes a request in a trace. If trace is "", the request has none.
func (c *client) call(method, params, trace string) answer {
	c.t.Helper()
	c.id++
	member := ""
	if trace != "" {
		member = fmt.Sprintf(`,"trace":{"traceparent":%q,"tracestate":"v=1"}`, trace)
	}
	c.write(fmt.Sprintf(`{"id":%d,"method":%q,"params":%s%s}`, c.id, method, params, member))
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	for {
		_, text, err := c.ws.Read(ctx)
		must(c.t, err)
		var a answer
		must(c.t, json.Unmarshal(text, &a))
		if a.ID == c.id {
			return a
		}
	}
}

// run runs a command to its end, and returns its first output.
func (c *client) run(id, script, more, trace string) string {
	c.t.Helper()
	if a := c.call("process/start", fmt.Sprintf(
		`{"processId":%q,"argv":["sh","-c",%q],"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"tty":false%s}`, id, script, more), trace); a.Error != nil {
		c.t.Fatalf("start %s: %v", id, a.Error)
	}
	text := ""
	for {
		a := c.call("process/read", fmt.Sprintf(`{"processId":%q,"waitMs":200}`, id), "")
		if chunks, _ := a.Result["chunks"].([]any); text == "" && len(chunks) > 0 {
			text, _ = chunks[0].(map[string]any)["chunk"].(string)
		}
		if a.Result["closed"] == true {
			return text
		}
	}
}
