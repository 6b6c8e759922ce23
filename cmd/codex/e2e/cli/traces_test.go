package cli

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collected are the spans that a collector has received, and their texts.
type collected struct {
	mu    sync.Mutex
	spans []*tracepb.Span
	body  []byte
}

// collectSpans starts a collector.
func collectSpans(t *testing.T) (*collected, string) {
	c := &collected{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/private-name" {
			return // the span is for an HTTP request of a client
		}
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData // it has the form of an ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &data) != nil || r.URL.Path != "/v1/traces" || r.Header.Get("X-Key") != "se-cret" {
			t.Errorf(`%s %v: got %x; want no error, proto.Unmarshal(body, &data) nil, r.URL.Path "/v1/traces", r.Header.Get("X-Key") "se-cret"`, r.URL, r.Header, body)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.body = append(c.body, body...)
		for _, rs := range data.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
	}))
	t.Cleanup(s.Close)
	return c, s.URL
}

// of returns the spans of a trace, by their names.
func (c *collected) of(trace string) map[string]*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	byName := make(map[string]*tracepb.Span)
	for _, s := range c.spans {
		if hex.EncodeToString(s.TraceId) == trace {
			byName[s.Name] = s
		}
	}
	return byName
}

// TestTracesOfDetachedProcesses: the lifetime of a detached process is a span of its trace. Its
// keeper exports the span after the server that started it has ended. The command gets the trace
// context.
func TestTracesOfDetachedProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	spans, collector := collectSpans(t)
	log := &serverLog{}
	d := &detaching{t: t, dir: filepath.Join(t.TempDir(), "retain")}
	t.Cleanup(func() { d.end(syscall.SIGKILL); d.endKeepers() })
	d.cmd, d.url = harness.ServerWith(t, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector, "OTEL_EXPORTER_OTLP_HEADERS=X-Key=se-cret",
	}, "--trace-commands", "--retain-dir", d.dir)
	const trace, script = "4bf92f3577b34da6a3ce929d0e0e4799", "echo $TRACEPARENT $TRACESTATE ${OTEL_EXPORTER_OTLP_HEADERS-none}; read line; exit 3"
	c := connectRaw(t, d.url)
	c.start("detached/late", script, `,"pipeStdin":true,"detach":{"startId":"s"}`, `{"traceparent":"00-`+trace+`-00f067aa0ba902b7-01","tracestate":"v=1"}`)
	harness.Must(t, d.cmd.Process.Signal(os.Interrupt))
	harness.Must(t, d.cmd.Wait())

	// The next server has no collector, and logs the end.
	d.cmd, d.url = harness.ServerLogging(t, log, "--log-format", "json", "--retain-dir", d.dir)
	c = connectRaw(t, d.url)
	c.call("process/closeStdin", `{"processId":"detached/late"}`, "")
	out := c.follow("detached/late")
	ended := log.await(t, "process ended")
	if ended["level"] != "INFO" || ended["exit_code"] != 3.0 || ended["cause"] != "exit" || ended["bytes_out"] != float64(len(out)) || ended["process"] != "detached/late" {
		t.Errorf("the log has %v", ended)
	}
	var byName map[string]*tracepb.Span
	testutil.Eventually(t.Context(), t, "the spans", func() (string, bool) {
		byName = spans.of(trace)
		return fmt.Sprint(byName), byName["codex.exec_server.process"] != nil
	})
	request, process := byName["process/start"], byName["codex.exec_server.process"]
	if request == nil || hex.EncodeToString(request.ParentSpanId) != "00f067aa0ba902b7" || byName["codex.process.spawn"] == nil ||
		!bytes.Equal(process.ParentSpanId, request.SpanId) || process.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR {
		t.Errorf("the spans are %v", byName)
	}
	if want := fmt.Sprintf("00-%s-%x-01 v=1 none\n", trace, process.SpanId); out != want {
		t.Errorf("the command got %q, want %q", out, want)
	}
	if len(byName) != 3 {
		t.Errorf("the trace has %v", byName)
	}
}

// TestDroppedSpansOfKeepers: the metrics of a server count the spans that a keeper could not
// export, even if the previous server has started that keeper.
func TestDroppedSpansOfKeepers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	var server, refused atomic.Int64 // the pid of the server; the number of spans of other programs
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err != nil || proto.Unmarshal(body, &data) != nil {
			t.Errorf("%s %v: got %x; want no error, proto.Unmarshal(body, &data) nil", r.URL, r.Header, body)
		}
		for _, rs := range data.ResourceSpans {
			for _, a := range rs.Resource.Attributes {
				if a.Key == "process.pid" && a.Value.GetIntValue() != server.Load() {
					refused.Add(int64(len(rs.ScopeSpans[0].Spans)))
					w.WriteHeader(http.StatusBadRequest)
				}
			}
		}
	}))
	t.Cleanup(collector.Close)
	d := &detaching{t: t, dir: filepath.Join(t.TempDir(), "retain")}
	t.Cleanup(func() { d.end(syscall.SIGKILL); d.endKeepers() })
	begin := func() {
		d.cmd, d.url = harness.ServerWith(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL}, "--retain-dir", d.dir)
		server.Store(int64(d.cmd.Process.Pid))
	}
	before := int64(0) // spans that the previous server has counted
	dropped := func() {
		t.Helper()
		testutil.Eventually(t.Context(), t, "the dropped spans", func() (string, bool) {
			text := metricsOf(t, "http"+strings.TrimPrefix(d.url, "ws")+"/metrics")
			got := regexp.MustCompile(`(?m)^exec_server_spans_dropped_total\{reason="export_failed"\} (\d+)$`).FindString(text)
			want := fmt.Sprintf(`exec_server_spans_dropped_total{reason="export_failed"} %d`, refused.Load()-before)
			return got + ", want " + want, len(d.keepers()) == 0 && refused.Load() > before && got == want
		})
		before = refused.Load()
	}
	begin()
	c := connectRaw(t, d.url)
	c.output("detached/first", "exit 0", `,"detach":{"startId":"s"}`, "")
	dropped()

	c.start("detached/second", "read line", `,"pipeStdin":true,"detach":{"startId":"s"}`, "")
	harness.Must(t, d.cmd.Process.Signal(os.Interrupt))
	harness.Must(t, d.cmd.Wait())
	begin()
	connectRaw(t, d.url).call("process/closeStdin", `{"processId":"detached/second"}`, "")
	dropped()
}

// TestTracesThroughRendezvous: a client reaches a registered server through a rendezvous service.
// The server continues the client's trace.
func TestTracesThroughRendezvous(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	spans, collector := collectSpans(t)
	m := harness.Rendezvous(t, filepath.Join(t.TempDir(), "tokens.json"))
	token := m.Token("--role", "both", "--environment", "*")
	server := exec.Command(harness.Codex, "exec-server", "--remote", m.URL, "--environment-id", "box", "--trace-commands")
	server.Env = append(os.Environ(), "CODEX_RENDEZVOUS_TOKEN="+token, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector, "OTEL_EXPORTER_OTLP_HEADERS=X-Key=se-cret")
	server.Stderr = harness.ShownOnFailure(t)
	harness.Must(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	m.Await(token, "the executor", func(s harness.MeetingStatus) bool { return s.Connected })

	dialer, err := harness.NewRelayDialer(m.URL, token, "box", nil)
	harness.Must(t, err)
	conn, err := dialer.Dial(t.Context())
	harness.Must(t, err)
	defer conn.Close()
	const trace = "4bf92f3577b34da6a3ce929d0e0e4788"
	out := greet(t, conn).output("p", "echo $TRACEPARENT $TRACESTATE", "", `{"traceparent":"00-`+trace+`-00f067aa0ba902b7-01","tracestate":"v=1"}`)
	harness.Must(t, server.Process.Signal(os.Interrupt))
	harness.Must(t, server.Wait())
	names := spans.of(trace)
	request, process := names["process/start"], names["codex.exec_server.process"]
	if request == nil || hex.EncodeToString(request.ParentSpanId) != "00f067aa0ba902b7" || process == nil || !bytes.Equal(process.ParentSpanId, request.SpanId) {
		t.Fatalf("the spans are %v", names)
	}
	if want := fmt.Sprintf("00-%s-%x-01 v=1\n", trace, process.SpanId); out != want {
		t.Errorf("the command got %q, want %q", out, want)
	}
}

// TestTraces: a server continues the traces of its clients and exports spans to a collector. If the
// server is configured so, commands get the context of their span. Spans contain no commands, paths
// or secrets, and no value of a trace member causes an error.
func TestTraces(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	spans, collector := collectSpans(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "private-name")
	harness.Must(t, os.WriteFile(file, []byte("private-content"), 0o600))
	server, url := harness.ServerWith(t, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector, "OTEL_EXPORTER_OTLP_HEADERS=X-Key=se-cret", "OTEL_SERVICE_NAME=box",
	}, "--trace-commands")
	c := connectRaw(t, url)
	traceOf := func(n int) (id, member string) {
		id = fmt.Sprintf("4bf92f3577b34da6a3ce929d0e0e47%02d", n)
		return id, fmt.Sprintf(`{"traceparent":"00-%s-00f067aa0ba902b7-01","tracestate":"v=1"}`, id)
	}
	first, member := traceOf(1)
	out := c.output("p1", "echo $TRACEPARENT $TRACESTATE; echo ${OTEL_EXPORTER_OTLP_HEADERS-none}; exit 3", "", member)
	second, member := traceOf(2)
	c.call("fs/readFile", fmt.Sprintf(`{"path":"file://%s"}`, file), member)
	third, member := traceOf(3)
	c.call("http/request", fmt.Sprintf(`{"requestId":"r","method":"GET","url":"%s/private-name","headers":[{"name":"a","value":"private-value"}]}`, collector), member)
	for _, bad := range []string{`5`, `"x"`, `null`, `{}`, `[]`, `{"traceparent":5}`, `{"traceparent":"x","tracestate":{}}`} {
		if r := c.call("process/list", `{}`, bad); r["processes"] == nil {
			t.Errorf("trace %s: %v", bad, r)
		}
	}
	fourth, member := traceOf(4)
	harness.NeedSandbox(t)
	sandbox := `,"sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]},"network":"restricted"},"cwd":"file:///"}`
	confined := c.output("p2", "echo $TRACEPARENT", sandbox, member)
	harness.Must(t, server.Process.Signal(os.Interrupt))
	harness.Must(t, server.Wait())

	for _, tt := range []struct {
		trace, request string
		children       []string
	}{
		{first, "process/start", []string{"codex.process.spawn", "codex.exec_server.process"}},
		{second, "fs/readFile", []string{"fs.read_file"}},
		{third, "http/request", []string{"codex.exec_server.http_request"}},
		{fourth, "process/start", []string{"codex.exec_server.process_prepare_sandbox", "codex.process.spawn", "codex.exec_server.process"}},
	} {
		got := spans.of(tt.trace)
		request := got[tt.request]
		if request == nil || hex.EncodeToString(request.ParentSpanId) != "00f067aa0ba902b7" || request.TraceState != "v=1" {
			t.Fatalf("%s does not continue its trace: %v", tt.request, got)
		}
		for _, name := range tt.children {
			if child := got[name]; child == nil || !bytes.Equal(child.ParentSpanId, request.SpanId) {
				t.Errorf("%s: %s is %v", tt.request, name, child)
			}
		}
	}
	process := spans.of(first)["codex.exec_server.process"]
	want := fmt.Sprintf("00-%s-%x-01 v=1\nnone\n", first, process.SpanId)
	if out != want || process.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR {
		t.Errorf("the command got %q, want %q; %v", out, want, process)
	}
	if want := fmt.Sprintf("00-%s-%x-01\n", fourth, spans.of(fourth)["codex.exec_server.process"].GetSpanId()); confined != want {
		t.Errorf("the confined command got %q, want %q", confined, want)
	}
	for _, secret := range []string{"private", "se-cret", "echo", "PATH", dir} {
		if strings.Contains(string(spans.body), secret) {
			t.Errorf("the spans have %q", secret)
		}
	}
}
