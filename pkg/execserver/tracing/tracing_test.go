package tracing

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"codex.internal/pkg/testutil"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanHex = "00f067aa0ba902b7"
	parent  = "00-" + traceID + "-" + spanHex + "-01"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		parent, state string
		valid         bool
		wantState     string
	}{
		{parent, "", true, ""},
		{parent, "a=1, b=2,,vendor@tenant=x", true, "a=1, b=2,,vendor@tenant=x"},
		{parent, "A=1", true, ""},
		{parent, "a", true, ""},
		{parent, "a=", true, ""},
		{parent, "a=1\nb=2", true, ""},
		{parent, "a=ü", true, ""},
		{parent, "a=" + strings.Repeat("x", 257), true, ""},
		{parent, strings.Repeat("a=1,", 33), true, ""},
		{parent, strings.Repeat(" ", 600), true, ""},
		{"cc-" + traceID + "-" + spanHex + "-01-what", "", true, ""},
		{"cc-" + traceID + "-" + spanHex + "-01", "", true, ""},
		{"cc-" + traceID + "-" + spanHex + "-01.", "", false, ""},
		{parent + "-", "", false, ""},
		{"ff-" + traceID + "-" + spanHex + "-01", "", false, ""},
		{"00-" + strings.Repeat("0", 32) + "-" + spanHex + "-01", "", false, ""},
		{"00-" + traceID + "-" + strings.Repeat("0", 16) + "-01", "", false, ""},
		{strings.ToUpper(parent), "", false, ""},
		{"00-" + traceID + "-" + spanHex + "-0g", "", false, ""},
		{"00_" + traceID + "-" + spanHex + "-01", "", false, ""},
		{parent[:54], "", false, ""},
		{"", "a=1", false, ""},
	} {
		c := Parse(tt.parent, tt.state)
		if c.IsValid() != tt.valid || c.State != tt.wantState {
			t.Errorf("%q %q: got %+v; want c.IsValid() %v, c.State %v", tt.parent, tt.state, c, tt.valid, tt.wantState)
		}
		if strings.HasPrefix(tt.parent, "00") && tt.valid && c.Traceparent() != tt.parent {
			t.Errorf("%q is written as %q", tt.parent, c.Traceparent())
		}
	}
	if c := Parse("00-"+traceID+"-"+spanHex+"-fe", ""); c.Sampled || !c.IsValid() {
		t.Errorf("flags fe: %+v", c)
	}
}

func TestParseMember(t *testing.T) {
	for text, valid := range map[string]bool{
		`{"traceparent":"` + parent + `","tracestate":"a=1"}`:    true,
		`{"tracestate":null,"traceparent":"` + parent + `"}`:     true,
		`{"tracestate":5,"x":[],"traceparent":"` + parent + `"}`: true,
		`{"traceparent":5}`: false, `{"traceparent":null}`: false, `{}`: false, `5`: false, `null`: false, `"x"`: false, `[]`: false, ``: false,
		`{"traceparent":"` + parent + `","x":"` + strings.Repeat("x", maxMember) + `"}`: false,
	} {
		if got := ParseMember([]byte(text)); got.IsValid() != valid {
			t.Errorf("%s: got %+v, want got.IsValid() %v", text, got, valid)
		}
	}
	if ParseMember(nil).IsValid() {
		t.Error("no member")
	}
}

// FuzzParseMember checks that an accepted member is unchanged after it is written and read
// again, and that it can be an environment variable.
func FuzzParseMember(f *testing.F) {
	for _, s := range []string{
		`{"traceparent":"` + parent + `","tracestate":"a=1,b@c=2"}`, `{"traceparent":null}`, `5`, `{"tracestate":"a=\u0000"}`,
		`{"traceparent":"cc-` + traceID + "-" + spanHex + `-ff-x","tracestate":" a=1\t"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c := ParseMember(text)
		if !c.IsValid() {
			return
		}
		if again := Parse(c.Traceparent(), c.State); again != c {
			t.Fatalf("%+v is read again as %+v", c, again)
		}
		if len(c.State) > maxState || strings.ContainsAny(c.State, "\x00\r\n") {
			t.Fatalf("state %q", c.State)
		}
	})
}

// collector is a collector that stores the received data.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	spans   []*tracepb.Span
	of      *resourcepb.Resource
	headers http.Header
	status  []int // status codes of the next answers; after them, 200
	answer  []byte
	got     chan struct{}
}

func newCollector(t *testing.T) *collector {
	c := &collector{got: make(chan struct{}, 100)}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData // has the same fields as an ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf(`got error %v, r.URL %s, r.Header %v; want no error, r.URL.Path "/v1/traces", r.Header.Get("Content-Type") "application/x-protobuf"`, err, r.URL, r.Header)
		} else if err := (proto.UnmarshalOptions{}).Unmarshal(body, &data); err != nil || len(data.ProtoReflect().GetUnknown()) > 0 {
			t.Errorf("got error %v, body %x; want no error, len(data.ProtoReflect().GetUnknown()) at most 0", err, body)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		defer func() { c.got <- struct{}{} }()
		c.headers = r.Header
		if len(c.status) > 0 {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status[0])
			c.status = c.status[1:]
			return
		}
		for _, rs := range data.ResourceSpans {
			c.of = rs.Resource
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
		_, _ = w.Write(c.answer)
	}))
	t.Cleanup(c.Close)
	return c
}

// all returns the spans that have arrived.
func (c *collector) all() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*tracepb.Span(nil), c.spans...)
}

// tracer returns a Tracer that is configured by variables, and its log.
func tracer(t *testing.T, variables map[string]string) (*Tracer, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	tr, err := New(Options{
		Getenv: func(name string) string { return variables[name] }, Version: "1.2.3", Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Transport: func() (*http.Transport, error) { return &http.Transport{}, nil },
	})
	if err != nil || tr == nil {
		t.Fatal(tr, err)
	}
	t.Cleanup(func() { tr.Shutdown(t.Context()) })
	return tr, &log
}

func values(list []*common.KeyValue) map[string]string {
	m := make(map[string]string)
	for _, p := range list {
		m[p.Key] = strings.TrimSpace(p.Value.String())
	}
	return m
}

func TestExport(t *testing.T) {
	c := newCollector(t)
	tr, log := tracer(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL + "/", "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20se-cret,x-a=1",
		"OTEL_SERVICE_NAME": "box", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test,service.name=other,x=a%2Cb",
	})
	before := time.Now()
	request := tr.Start(Parse(parent, "v=1"), "fs/readFile", Server, before)
	request.Set("method", "fs/readFile")
	request.Set("long", strings.Repeat("ä\xff", 1000))
	for range 100 {
		request.SetInt("n", -5)
	}
	child := request.Child("fs.read_file", Internal)
	child.SetBool("sandboxed", true)
	child.End(true)
	child.Set("late", "x")
	child.End(false)
	request.End(false)
	tr.Start(Parse(strings.TrimSuffix(parent, "1")+"0", ""), "unsampled", Server, before).End(false)
	tr.Shutdown(t.Context())

	spans := c.all()
	if len(spans) != 2 || tr.Counts() != (Counts{Exported: 2}) || log.Len() > 0 {
		t.Fatalf("%d spans, %+v, log %s", len(spans), tr.Counts(), log)
	}
	first, second := spans[0], spans[1]
	switch {
	case hex.EncodeToString(second.TraceId) != traceID || hex.EncodeToString(second.ParentSpanId) != spanHex || second.TraceState != "v=1":
		t.Errorf("the request does not continue the trace: %v", second)
	case !bytes.Equal(first.ParentSpanId, second.SpanId) || !bytes.Equal(first.TraceId, second.TraceId):
		t.Errorf("%v is no child of %v", first, second)
	case second.Name != "fs/readFile" || second.Kind != tracepb.Span_SPAN_KIND_SERVER || second.Status.GetCode() != tracepb.Status_STATUS_CODE_UNSET:
		t.Errorf(`got %v; want second.Name "fs/readFile", second.Kind %v, second.Status.GetCode() %v`, second, tracepb.Span_SPAN_KIND_SERVER, tracepb.Status_STATUS_CODE_UNSET)
	case first.Kind != tracepb.Span_SPAN_KIND_INTERNAL || first.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || second.Flags != 1:
		t.Errorf("got %v; want first.Kind %v, first.Status.GetCode() %v, second.Flags 1", first, tracepb.Span_SPAN_KIND_INTERNAL, tracepb.Status_STATUS_CODE_ERROR)
	case second.StartTimeUnixNano != uint64(before.UnixNano()) || second.EndTimeUnixNano < first.EndTimeUnixNano:
		t.Errorf("times %v", second)
	case len(second.Attributes) != maxAttributes || len(second.Attributes[1].Value.GetStringValue()) > maxValue+4 || len(first.Attributes) != 1:
		t.Errorf("attributes %v %v", first, second)
	case !first.Attributes[0].Value.GetBoolValue() || second.Attributes[2].Value.GetIntValue() != -5:
		t.Errorf("attributes %v %v", first, second)
	}
	of := values(c.of.Attributes)
	if !strings.Contains(of["service.name"], `"box"`) || !strings.Contains(of["x"], `"a,b"`) || of["service.version"] == "" {
		t.Errorf("resource %v", of)
	}
	if c.headers.Get("Authorization") != "Bearer se-cret" || c.headers.Get("X-A") != "1" {
		t.Errorf("headers %v", c.headers)
	}
}

// TestRefused: spans that a collector does not accept are counted and logged, without the
// headers. Redirects are not followed.
func TestRefused(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusTemporaryRedirect, http.StatusUnauthorized} {
		c := newCollector(t)
		c.status = []int{status}
		tr, log := tracer(t, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.URL + "/v1/traces", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=se-cret"})
		tr.Start(Context{}, "a", Server, time.Now()).End(false)
		tr.Shutdown(t.Context())
		if tr.Counts() != (Counts{Failed: 1}) || len(c.all()) > 0 || len(c.got) != 1 {
			t.Errorf("%d: %+v, %d requests", status, tr.Counts(), len(c.got))
		}
		if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "spans=1") || strings.Contains(text, "se-cret") {
			t.Errorf("%d: log %s", status, text)
		}
	}
}

// TestPartial: spans that the collector rejects are counted.
func TestPartial(t *testing.T) {
	c := newCollector(t)
	c.answer = []byte("\x0a\x06\x08\x01\x12\x02no") // partial_success {rejected_spans: 1, error_message: "no"}
	tr, log := tracer(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL})
	for range 3 {
		tr.Start(Context{}, "a", Server, time.Now()).End(false)
	}
	tr.Shutdown(t.Context())
	if tr.Counts() != (Counts{Exported: 2, Failed: 1}) || !strings.Contains(log.String(), "all but 1 of 3") {
		t.Errorf(`got tr.Counts() %+v, log %s; want tr.Counts() Counts{Exported: 2, Failed: 1}, log with "all but 1 of 3"`, tr.Counts(), log)
	}
	for _, text := range []string{"", "\x0a", "\x0a\xff", "\x0a\x01\x08", "\xff", "\x12\x01x"} {
		if n := rejected([]byte(text)); n != 0 {
			t.Errorf("%q: got %d, want 0", text, n)
		}
	}
}

// TestRetry: if the collector is busy, a batch is sent again.
func TestRetry(t *testing.T) {
	c := newCollector(t)
	c.status = []int{http.StatusServiceUnavailable}
	tr, _ := tracer(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL})
	for range maxBatch {
		tr.Start(Context{}, "a", Server, time.Now()).End(false)
	}
	<-c.got
	<-c.got
	testutil.Eventually(t.Context(), t, "all spans are exported", func() (string, bool) {
		got := tr.Counts()
		return fmt.Sprintf("%+v", got), got == Counts{Exported: maxBatch}
	})
}

// TestQueue: if the collector does not answer, neither spans nor a shutdown wait for it.
func TestQueue(t *testing.T) {
	arrived, end := make(chan struct{}, 10), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-end
	}))
	defer s.Close()
	defer close(end)
	tr, log := tracer(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": s.URL})
	for range maxBatch {
		tr.Start(Context{}, "a", Server, time.Now()).End(false)
	}
	<-arrived
	const more = 100
	for range maxQueue + more {
		tr.Start(Context{}, "a", Server, time.Now()).End(false)
	}
	if n := tr.Counts().Full; n != more {
		t.Errorf("%d spans were dropped, want %d", n, more)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tr.Shutdown(ctx)
	if got := tr.Counts(); got.Full != more || got.Failed != maxBatch+maxQueue || !strings.Contains(log.String(), "spans were not exported") {
		t.Errorf(`got %+v, log %s; want Full %v, Failed %v, log with "spans were not exported"`, got, log, more, maxBatch+maxQueue)
	}
	if strings.Count(log.String(), "\n") > 2 {
		t.Errorf("more than two records: %s", log)
	}
}

func TestConfig(t *testing.T) {
	const at = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, tt := range []struct{ name, value, want string }{ // want: a part of the error; "nil", or an endpoint
		{"", "", "http://c:4318/v1/traces"},
		{at, "", "nil"},
		{at, "https://c/base?x=1", "https://c/base/v1/traces?x=1"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://d", "http://d/"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://d/x", "http://d/x"},
		{at, "c:4318", "error"}, {at, "grpc://c", "error"}, {at, "http://u:se-cret@c", "error"}, {at, "http://%zz", "error"},
		{"OTEL_TRACES_EXPORTER", "none", "nil"}, {"OTEL_TRACES_EXPORTER", "otlp", "http://c:4318/v1/traces"}, {"OTEL_TRACES_EXPORTER", "zipkin", "error"},
		{"OTEL_SDK_DISABLED", "true", "nil"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "error"}, {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf", "http://c:4318/v1/traces"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "0", "error"}, {"OTEL_EXPORTER_OTLP_TIMEOUT", "x", "error"}, {"OTEL_EXPORTER_OTLP_TIMEOUT", "500", "http://c:4318/v1/traces"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "se-cret", "error"}, {"OTEL_EXPORTER_OTLP_HEADERS", "a b=se-cret", "error"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=se-cret%0a", "error"}, {"OTEL_EXPORTER_OTLP_HEADERS", "a=se-cret%zz", "error"},
		{"OTEL_RESOURCE_ATTRIBUTES", "x", "error"},
		{"OTEL_TRACES_SAMPLER", "jaeger_remote", "error"}, {"OTEL_TRACES_SAMPLER", "always_off", "http://c:4318/v1/traces"},
	} {
		c, err := readConfig(func(name string) string {
			switch name {
			case tt.name:
				return tt.value
			case at:
				return "http://c:4318"
			default:
				return ""
			}
		})
		got := "nil"
		if err != nil {
			got = "error"
			if !strings.Contains(err.Error(), tt.name) || strings.Contains(err.Error(), "se-cret") {
				t.Errorf(`%s=%s: got error %v; want an error with %q, an error without "se-cret"`, tt.name, tt.value, err, tt.name)
			}
		} else if c != nil {
			got = c.endpoint
		}
		if got != tt.want {
			t.Errorf("%s=%s: %s, want %s", tt.name, tt.value, got, tt.want)
		}
	}
}

func TestSampler(t *testing.T) {
	on, off := Parse(parent, ""), Parse(strings.TrimSuffix(parent, "1")+"0", "")
	low, high := [16]byte{15: 1}, [16]byte{8: 0xff}
	for _, tt := range []struct {
		name, arg string
		want      [4]bool // for a sampled parent, an unsampled parent, no parent and a low id, no parent and a high id
	}{
		{"", "", [4]bool{true, false, true, true}},
		{"always_on", "", [4]bool{true, true, true, true}},
		{"always_off", "", [4]bool{}},
		{"parentbased_always_off", "", [4]bool{true, false, false, false}},
		{"parentbased_traceidratio", "0.5", [4]bool{true, false, true, false}},
		{"traceidratio", "0", [4]bool{}},
		{"traceidratio", "", [4]bool{true, true, true, true}},
	} {
		s, err := newSampler(tt.name, tt.arg)
		got := [4]bool{s.sample(on, on.Trace), s.sample(off, off.Trace), s.sample(Context{}, low), s.sample(Context{}, high)}
		if err != nil || got != tt.want {
			t.Errorf("%s %s: got %v, error %v; want no error, %v", tt.name, tt.arg, got, err, tt.want)
		}
	}
	for _, arg := range []string{"x", "-1", "1.1", "NaN"} {
		if _, err := newSampler("traceidratio", arg); err == nil {
			t.Errorf("%s was accepted", arg)
		}
	}
}

// TestNil: code need not check whether there is a tracer.
func TestNil(t *testing.T) {
	var tr *Tracer
	s := tr.Start(Parse(parent, ""), "a", Server, time.Now())
	s.Set("a", "b")
	s.SetInt("a", 1)
	s.Child("b", Internal).End(false)
	s.End(true)
	tr.Shutdown(t.Context())
	if From(s.With(t.Context())) != nil || s.Context().IsValid() {
		t.Error("a span")
	}
}
