package observe

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/tracing"
	"codex.internal/pkg/internal/metrics"
	"codex.internal/pkg/wire/jsonrpc"
)

// The names of spans other than steps. Spans of requests and of file operations have the name
// of the method, such as fs.get_metadata. Codex CLI's server uses the same names.
const (
	spanProcess     = "codex.exec_server.process"
	spanHTTPRequest = "codex.exec_server.http_request"
)

// traces makes the spans of a server.
type traces struct {
	tracer *tracing.Tracer // nil: traces are only passed to commands
	// within, in a keeper, is the span of the client's request at its server. Nil: this is not
	// a keeper.
	within *tracing.Context
	// full and failed count the spans that keepers have dropped.
	full, failed atomic.Int64
}

func (t *traces) observe(ev *Events) {
	ev.RequestArrived.Add(t.requestArrived)
	ev.RequestRuns.Add(func(r *Request) { r.span.SetInt("rpc.dispatch_offset_ns", int64(time.Since(r.Arrived))) })
	ev.RequestDone.Add(requestSpanDone)
	ev.ProcessStartBegan.Add(func(p *Process) {
		p.span = p.Within.Child(spanProcess, tracing.Internal)
		p.span.Set("process.id", Short(p.ID))
		p.span.SetBool("process.tty", p.TTY)
	})
	ev.ProcessStarted.Add(func(p *Process) { p.span.Set("sandbox.type", p.Sandbox) })
	ev.ProcessStartFailed.Add(func(f StartFailure) {
		f.span.Set("sandbox.type", f.Sandbox)
		f.span.End(true)
	})
	ev.ProcessClosed.Add(func(p *Process) {
		p.span.SetInt("process.exit.code", int64(p.Exit.Code))
		p.span.Set("cause", string(p.Exit.Cause))
		p.span.SetInt("bytes_in", p.In.Load())
		p.span.SetInt("bytes_out", p.Out.Load())
		p.span.End(p.Exit.Code != 0)
	})
	ev.StepBegan.Add(func(s *Step) { s.span = s.Within.Child(s.Name, tracing.Internal) })
	ev.StepDone.Add(func(s *Step) { s.span.End(s.Err != nil) })
	ev.FileStarting.Add(func(f *File) error {
		if f.Within != nil {
			f.span = f.Within.Child(spanOf(f.Method), tracing.Internal)
			f.span.SetBool("sandboxed", f.Policy != nil)
		}
		return nil
	})
	ev.FileDone.Add(func(f *File) { f.span.End(f.Err != nil) })
	ev.HTTPStarting.Add(httpSpan)
	ev.HTTPDone.Add(func(h *HTTP) {
		if h.Err == nil {
			h.span.SetInt("http.response.status_code", int64(h.Status))
		}
		h.span.End(h.Err != nil)
	})
	ev.KeeperSpansDropped.Add(func(c tracing.Counts) {
		t.full.Add(c.Full)
		t.failed.Add(c.Failed)
	})
}

// count adds the results of exports to the metrics. Dropped spans may belong to keepers.
func (t *traces) count(m *Metrics) {
	m.set.Collect(metrics.KindCounter, "exec_server_spans_exported_total", "Spans that the collector has taken.", nil,
		func(emit func(float64, ...string)) { emit(float64(t.tracer.Counts().Exported)) })
	m.set.Collect(metrics.KindCounter, "exec_server_spans_dropped_total", "Spans that were not exported.", []string{"reason"},
		func(emit func(float64, ...string)) {
			counts := t.tracer.Counts()
			emit(float64(counts.Full+t.full.Load()), "queue_full")
			emit(float64(counts.Failed+t.failed.Load()), "export_failed")
		})
}

// requestArrived begins the span of a request, in the trace that the request's member trace
// names. In a keeper only the start is traced, within the span that its server has for the
// client's request. The keeper's other requests come from the server itself.
func (t *traces) requestArrived(r *Request) {
	if t.within != nil {
		if r.Method == execproto.MethodProcessStart {
			r.trace = *t.within
			r.span = t.tracer.Remote(r.trace)
		}
		return
	}
	r.trace = tracing.ParseMember(r.Trace)
	r.span = t.tracer.Start(r.trace, r.Method, tracing.Server, r.Arrived)
	r.span.Set("method", r.Method)
}

func requestSpanDone(end RequestEnd) {
	result := "success"
	if end.Err != nil {
		result = "error"
	}
	if e, ok := errors.AsType[*jsonrpc.Error](end.Err); ok {
		end.span.SetInt("rpc.jsonrpc.error_code", int64(e.Code))
	}
	end.span.Set("result", result)
	end.span.SetInt("rpc.response_enqueue_offset_ns", int64(time.Since(end.Arrived)))
	end.span.End(end.Err != nil)
}

// clientTrace is the key of the trace of the client in the context of a request.
type clientTrace struct{}

// Context returns a context with the span of the request, for the parts of the request.
func (r *Request) Context(ctx context.Context) context.Context {
	if r.span == nil && r.trace.IsValid() {
		return context.WithValue(ctx, clientTrace{}, r.trace)
	}
	return r.span.With(ctx)
}

// TraceOf returns the trace of a request with ctx: its span's or, without a tracer, the client's.
// If there is neither, it returns the zero Context.
func TraceOf(ctx context.Context) tracing.Context {
	if span := tracing.From(ctx); span != nil {
		return span.Context()
	}
	trace, _ := ctx.Value(clientTrace{}).(tracing.Context)
	return trace
}

// Environ returns the environment of the process's command. If the process belongs to a trace,
// TRACEPARENT and TRACESTATE replace those of env.
func (p *Process) Environ(env []string) []string {
	trace := p.span.Context()
	if p.span == nil {
		trace = p.Trace
	}
	if !trace.IsValid() {
		return env
	}
	traced := env[:0:0]
	for _, variable := range env {
		name, _, _ := strings.Cut(variable, "=")
		if name != "TRACEPARENT" && name != "TRACESTATE" {
			traced = append(traced, variable)
		}
	}
	traced = append(traced, "TRACEPARENT="+trace.Traceparent())
	if trace.State != "" {
		traced = append(traced, "TRACESTATE="+trace.State)
	}
	return traced
}

// spanOf returns the name of the span of a file operation: fs.get_metadata for fs/getMetadata.
func spanOf(method string) string {
	var b strings.Builder
	for _, r := range method {
		switch {
		case r == '/':
			r = '.'
		case unicode.IsUpper(r):
			b.WriteByte('_')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// httpSpan begins the span of an HTTP request, which ends with the head of the response.
func httpSpan(h *HTTP) error {
	h.span = h.Within.Child(spanHTTPRequest, tracing.Client)
	if h.span != nil {
		h.span.Set("http.request.method", knownMethod(h.Method))
		if target, err := url.Parse(h.URL); err == nil {
			h.span.Set("server.address", target.Hostname())
		}
	}
	return nil
}

// knownMethod returns a method of HTTP, or _OTHER if HTTP does not define the method.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	default:
		return "_OTHER"
	}
}
