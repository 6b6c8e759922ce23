package collector

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// sink keeps the data that a receiver has accepted.
type sink struct {
	mu    sync.Mutex
	spans []received
}

func (k *sink) consume(_ context.Context, data ptrace.Traces) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spans = append(k.spans, spansOf(data)...)
	return nil
}

// of returns the spans of a trace, by name.
func (k *sink) of(trace string) map[string]received {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := make(map[string]received)
	for _, s := range k.spans {
		if s.TraceID().String() == trace {
			list[s.Name()] = s
		}
	}
	return list
}

func (k *sink) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.spans)
}

// parent is the span of the client.
const parent = "00f067aa0ba902b7"

func traceOf(n int) (id, traceparent string) {
	id = fmt.Sprintf("4bf92f3577b34da6a3ce929d0e0e47%02d", n)
	return id, "00-" + id + "-" + parent + "-01"
}

// want is an expected span.
type want struct {
	name   string
	under  string // the name of its parent; empty: the client's span
	kind   ptrace.SpanKind
	failed bool
	has    []string // in its attributes as JSON
	longer bool     // it may end after its parent
}

const readOnly = `,"sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[` +
	`{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]},"network":"restricted"},"cwd":"file:///"}`

// TestSpans: a client uses a server in several traces, and the collector's data is
// compared.
func TestSpans(t *testing.T) {
	t.Parallel()
	var k sink
	s := start(t, receive(t, k.consume), "OTEL_SERVICE_NAME=box", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment=a%20b")
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	file := filepath.Join(t.TempDir(), "private-name")
	must(t, os.WriteFile(file, []byte("private-content"), 0o600))
	c := s.connect()
	traces := make([]string, 7)
	member := make([]string, 7)
	for i := range traces {
		traces[i], member[i] = traceOf(i)
	}
	childOf := c.run("p0", "echo $TRACEPARENT $TRACESTATE; exit 3", "", member[0])
	c.run("p1", "exec true", "", member[1])
	c.call("fs/readFile", fmt.Sprintf(`{"path":"file://%s"}`, file), member[2])
	c.call("fs/getMetadata", `{"path":"file:///no/private-name"}`, member[3])
	c.call("http/request", fmt.Sprintf(`{"requestId":"r","method":"GET","url":"%s/private-name","headers":[]}`, web.URL), member[4])
	c.call("private/method", `{}`, member[5])
	sandboxed := exec.Command(codex(t), "sandbox", "--", "true").Run() == nil
	if sandboxed {
		c.run("p6", "exec true", readOnly, member[6])
	}
	began := time.Now()
	if took := s.end(); took > 10*time.Second {
		t.Errorf("the end took %v", took)
	}
	version, err := exec.Command(codex(t), "--version").Output()
	must(t, err)

	for i, wanted := range wantedSpans() {
		if i == 6 && !sandboxed {
			t.Log("no sandbox can be made here")
			if os.Getenv("CI") == "true" {
				t.Fail()
			}
			continue
		}
		got := k.of(traces[i])
		if len(got) != len(wanted) {
			t.Errorf("trace %d has %d spans, and must have %d: %v", i, len(got), len(wanted), got)
		}
		for _, w := range wanted {
			check(t, got, w, strings.TrimPrefix(strings.TrimSpace(string(version)), "codex "))
		}
		for name, span := range got {
			for _, secret := range []string{"private", "PATH", "echo", "file://"} {
				if text := name + textOf(span.Attributes()) + span.resource; strings.Contains(text, secret) {
					t.Errorf("%s tells %q: %s", name, secret, text)
				}
			}
			if span.EndTimestamp().AsTime().After(began.Add(time.Minute)) {
				t.Errorf("%s ends at %v", name, span.EndTimestamp())
			}
		}
	}
	out, err := base64.StdEncoding.DecodeString(childOf)
	must(t, err)
	if w := fmt.Sprintf("00-%s-%s-01 v=1\n", traces[0], k.of(traces[0])["codex.exec_server.process"].SpanID()); string(out) != w {
		t.Errorf("the command got %q, want %q", out, w)
	}
}

// wantedSpans are the expected spans of each trace of TestSpans.
func wantedSpans() [][]want {
	process := func(failed bool, code, sandbox string) want {
		return want{"codex.exec_server.process", "process/start", ptrace.SpanKindInternal, failed, []string{
			`"process.exit.code":` + code, `"cause":"exit"`, `"sandbox.type":"` + sandbox + `"`, `"process.tty":false`, `"process.id":"p`, `"bytes_out":`, `"bytes_in":0`}, true}
	}
	request := func(method string) want {
		return want{method, "", ptrace.SpanKindServer, false, []string{
			`"method":"` + method + `"`, `"result":"success"`, `"rpc.dispatch_offset_ns":`, `"rpc.response_enqueue_offset_ns":`}, false}
	}
	refused := func(method string) want {
		w := request(method)
		w.failed, w.has = true, []string{`"result":"error"`, `"rpc.jsonrpc.error_code":-32`}
		return w
	}
	spawn := want{"codex.process.spawn", "process/start", ptrace.SpanKindInternal, false, nil, false}
	prepare := want{"codex.exec_server.process_prepare_sandbox", "process/start", ptrace.SpanKindInternal, false, nil, false}
	return [][]want{
		{request("process/start"), spawn, process(true, "3", "none")},
		{request("process/start"), spawn, process(false, "0", "none")},
		{request("fs/readFile"), {"fs.read_file", "fs/readFile", ptrace.SpanKindInternal, false, []string{`"sandboxed":false`}, false}},
		{refused("fs/getMetadata"), {"fs.get_metadata", "fs/getMetadata", ptrace.SpanKindInternal, true, nil, false}},
		{request("http/request"), {"codex.exec_server.http_request", "http/request", ptrace.SpanKindClient, false, []string{
			`"http.request.method":"GET"`, `"server.address":"127.0.0.1"`, `"http.response.status_code":404`}, false}},
		{refused("unknown")},
		{request("process/start"), prepare, spawn, process(false, "0", "linuxSeccomp")},
	}
}

// check compares a span with the expected one.
func check(t *testing.T, got map[string]received, w want, version string) {
	t.Helper()
	s, ok := got[w.name]
	if !ok {
		t.Errorf("%s is missing in %v", w.name, got)
		return
	}
	up := parent
	if w.under != "" {
		p := got[w.under]
		up = p.SpanID().String()
		if s.StartTimestamp() < p.StartTimestamp() || s.EndTimestamp() > p.EndTimestamp() && !w.longer {
			t.Errorf("%s is from %v to %v, and its parent from %v to %v", w.name, s.StartTimestamp(), s.EndTimestamp(), p.StartTimestamp(), p.EndTimestamp())
		}
	}
	if s.ParentSpanID().String() != up || s.SpanID().IsEmpty() || s.TraceState().AsRaw() != "v=1" || s.Flags()&1 == 0 {
		t.Errorf("%s: parent %s, want %s; state %q, flags %x", w.name, s.ParentSpanID(), up, s.TraceState().AsRaw(), s.Flags())
	}
	code := ptrace.StatusCodeUnset
	if w.failed {
		code = ptrace.StatusCodeError
	}
	if s.Kind() != w.kind || s.Status().Code() != code || s.EndTimestamp() < s.StartTimestamp() {
		t.Errorf("%s: kind %v, status %v, from %v to %v", w.name, s.Kind(), s.Status().Code(), s.StartTimestamp(), s.EndTimestamp())
	}
	for _, part := range w.has {
		if text := textOf(s.Attributes()); !strings.Contains(text, part) {
			t.Errorf("%s: %s is missing in %s", w.name, part, text)
		}
	}
	for _, part := range []string{`"deployment.environment":"a b"`, `"service.name":"box"`, `"service.version":"` + version + `"`} {
		if !strings.Contains(s.resource, part) {
			t.Errorf("%s: %s is missing in %s", w.name, part, s.resource)
		}
	}
	if s.scope != "codex-exec-server "+version {
		t.Errorf("%s is from %s; the version is %s", w.name, s.scope, version)
	}
}

// retryable returns an error with which a receiver asks its client to wait.
func retryable(code codes.Code, wait time.Duration) error {
	s, err := status.New(code, "busy").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	if err != nil {
		return err
	}
	return s.Err()
}

// TestBusyCollector: a collector is temporarily busy (503, 429 with Retry-After, 503). It gets the
// spans again, once each, and not before the time that it has requested.
func TestBusyCollector(t *testing.T) {
	t.Parallel()
	var k sink
	var mu sync.Mutex
	var came []time.Time
	answers := []error{fmt.Errorf("out of memory"), retryable(codes.ResourceExhausted, 3*time.Second), retryable(codes.Unavailable, time.Second)}
	s := start(t, receive(t, func(ctx context.Context, data ptrace.Traces) error {
		mu.Lock()
		n := len(came)
		came = append(came, time.Now())
		mu.Unlock()
		if n < len(answers) {
			return answers[n]
		}
		return k.consume(ctx, data)
	}))
	c := s.connect()
	const requests = 20
	for range requests {
		c.call("process/list", `{}`, "")
	}
	await(t, "all spans", func() bool { return s.count(exported) >= requests })
	if got := k.count(); got < requests || got != s.count(exported) || s.count(full)+s.count(failed) != 0 {
		t.Errorf("%d spans came, %d were exported, %d dropped", got, s.count(exported), s.count(full)+s.count(failed))
	}
	mu.Lock()
	defer mu.Unlock()
	for i, least := range []time.Duration{time.Second, 3 * time.Second, time.Second} {
		if pause := came[i+1].Sub(came[i]); pause < least || pause > least+5*time.Second {
			t.Errorf("attempt %d came after %v, and %v was asked for", i+2, pause, least)
		}
	}
}

// TestRefusingCollector: spans that the collector refuses permanently (500) are not sent again. The
// server reports how many were lost and why.
func TestRefusingCollector(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	attempts := 0
	s := start(t, receive(t, func(context.Context, ptrace.Traces) error {
		mu.Lock()
		defer mu.Unlock()
		attempts++
		return consumererror.NewPermanent(fmt.Errorf("no"))
	}))
	s.connect().call("process/list", `{}`, "")
	await(t, "the refusal", func() bool { return s.count(failed) >= 2 })
	await(t, "a word of it", func() bool { return strings.Contains(s.said.String(), "spans were not exported") })
	if text := s.said.String(); !strings.Contains(text, "status 500") || s.count(exported) != 0 {
		t.Errorf("%d are exported", s.count(exported))
	}
	mu.Lock()
	defer mu.Unlock()
	if attempts != 1 {
		t.Errorf("they were sent %d times", attempts)
	}
}

// TestNoCollector: the server does not wait for a collector that is missing or does not answer.
// Spans that do not fit into the queue, or cannot be sent, are counted and reported. The end of the
// server waits for at most 3 seconds.
func TestNoCollector(t *testing.T) {
	t.Parallel()
	hanging := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hanging }))
	t.Cleanup(func() { close(hanging); slow.Close() })
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, endpoint := range map[string]string{"slow": slow.URL, "gone": gone.URL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, endpoint, "OTEL_EXPORTER_OTLP_TIMEOUT=1000")
			c := s.connect()
			began := time.Now()
			const requests = 4000 // the queue has 2048, a batch 512
			for range requests {
				c.call("process/list", `{}`, "")
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("%d requests took %v", requests, took)
			}
			if n := s.count(full); n == 0 {
				t.Error("nothing was dropped because the queue was full")
			}
			await(t, "the failure of the first batch", func() bool { return s.count(failed) >= 512 })
			await(t, "a word of it", func() bool { return strings.Contains(s.said.String(), "spans were not exported") })
			if s.count(exported) != 0 {
				t.Error("spans were exported")
			}
			_ = c.ws.CloseNow()
			if took := s.end(); took > 6*time.Second {
				t.Errorf("the end took %v", took)
			}
			if text := s.said.String(); strings.Count(text, "spans were not exported") < 2 {
				t.Error("at its end the server does not say what was dropped since")
			}
		})
	}
}
