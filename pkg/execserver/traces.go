package execserver

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/tracing"
	"codex.internal/pkg/host/fetch"
	"codex.internal/pkg/wire/jsonrpc"
)

// The names of spans. Those of requests are the methods, and those of file operations the
// methods too, as fs.get_metadata. Codex CLI's server has the same names.
const (
	spanPrepareSandbox = "codex.exec_server.process_prepare_sandbox"
	spanSpawn          = "codex.process.spawn"
	spanProcess        = "codex.exec_server.process"
	spanHTTPRequest    = "codex.exec_server.http_request"
)

// startSpan begins the span of a request, in the trace that its trace member names.
func (rq *request) startSpan(trace []byte) {
	srv := rq.c.srv
	if srv.opts.Tracer == nil && !srv.opts.TraceCommands {
		return
	}
	name := rq.method
	if k := srv.keeper; k != nil {
		// The server has a span for the client's request already. Its other requests to the
		// keeper are its own, and are not traced.
		if name == execproto.MethodProcessStart {
			rq.trace = tracing.Parse(k.record.Traceparent, k.record.Tracestate)
			rq.span = srv.opts.Tracer.Remote(rq.trace)
		}
		return
	}
	rq.trace = tracing.ParseMember(trace)
	if _, ok := methods[name]; !ok {
		name = unknownMethod
	}
	rq.span = srv.opts.Tracer.Start(rq.trace, name, tracing.Server, rq.at)
	rq.span.Set("method", name)
}

// clientTrace is the key of the trace of the client in the context of a request.
type clientTrace struct{}

// traced is told that the request begins to run. It returns the context in which parts of the
// request find its span.
func (rq *request) traced(ctx context.Context) context.Context {
	rq.span.SetInt("rpc.dispatch_offset_ns", int64(time.Since(rq.at)))
	if rq.span == nil && rq.trace.IsValid() {
		return context.WithValue(ctx, clientTrace{}, rq.trace)
	}
	return rq.span.With(ctx)
}

// traceOf returns the trace of a request with ctx: that of its span or, without a tracer, that of
// the client. It returns the zero Context if there is neither.
func traceOf(ctx context.Context) tracing.Context {
	if span := tracing.From(ctx); span != nil {
		return span.Context()
	}
	trace, _ := ctx.Value(clientTrace{}).(tracing.Context)
	return trace
}

// setTrace has the keeper of a process continue a trace.
func (r *keeperRecord) setTrace(trace tracing.Context) {
	if trace.IsValid() {
		r.Traceparent, r.Tracestate = trace.Traceparent(), trace.State
	}
}

// endSpan is told that the request is about to be answered, with an error unless err is nil.
func (rq *request) endSpan(err error) {
	result := "success"
	var e *jsonrpc.Error
	if err != nil {
		result = "error"
	}
	if errors.As(err, &e) {
		rq.span.SetInt("rpc.jsonrpc.error_code", int64(e.Code))
	}
	rq.span.Set("result", result)
	rq.span.SetInt("rpc.response_enqueue_offset_ns", int64(time.Since(rq.at)))
	rq.span.End(err != nil)
}

// within runs f in a span of its own, if the context has one.
func within(ctx context.Context, name string, f func() error) {
	span := tracing.From(ctx).Child(name, tracing.Internal)
	span.End(f() != nil)
}

// fileSpan begins the span of a file operation.
func fileSpan(ctx context.Context, method string, worker fileWorker) *tracing.Span {
	parent := tracing.From(ctx)
	if parent == nil {
		return nil
	}
	span := parent.Child(spanOf(method), tracing.Internal)
	_, sandboxed := worker.(confinedFiles)
	span.SetBool("sandboxed", sandboxed)
	return span
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

// fetch makes an HTTP request of a client. Its span ends with the head of the response.
func (c *conn) fetch(ctx context.Context, request fetch.Request) (*fetch.Response, error) {
	if err := c.recordHTTP(request.Method, request.URL); err != nil {
		return nil, err
	}
	span := tracing.From(ctx).Child(spanHTTPRequest, tracing.Client)
	if span != nil {
		span.Set("http.request.method", knownMethod(request.Method))
		if target, err := url.Parse(request.URL); err == nil {
			span.Set("server.address", target.Hostname())
		}
	}
	response, err := c.srv.fetcher.Do(ctx, request)
	if err == nil {
		span.SetInt("http.response.status_code", int64(response.Status))
	}
	span.End(err != nil)
	return response, err
}

// knownMethod returns a method of HTTP, or _OTHER for texts that a client has made up.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	default:
		return "_OTHER"
	}
}

// startSpan begins the span of the process, and gives the command its name if commands get it.
// ctx is that of the request.
func (st *start) startSpan(ctx context.Context) {
	p := st.p
	p.span = tracing.From(ctx).Child(spanProcess, tracing.Internal)
	p.span.Set("process.id", shorten(p.id))
	p.span.SetBool("process.tty", p.tty)
	if !p.s.srv.opts.TraceCommands {
		return
	}
	trace := p.span.Context()
	if p.span == nil {
		trace = traceOf(ctx)
	}
	if !trace.IsValid() {
		return
	}
	env := st.spec.Env[:0:0]
	for _, variable := range st.spec.Env {
		name, _, _ := strings.Cut(variable, "=")
		if name != "TRACEPARENT" && name != "TRACESTATE" {
			env = append(env, variable)
		}
	}
	env = append(env, "TRACEPARENT="+trace.Traceparent())
	if trace.State != "" {
		env = append(env, "TRACESTATE="+trace.State)
	}
	st.spec.Env = env
}

// endSpan ends the span of the process.
func (p *proc) endSpan() {
	if p.span == nil {
		return
	}
	p.span.SetInt("process.exit.code", int64(p.exit.code))
	p.span.Set("cause", string(p.exit.cause))
	p.span.SetInt("bytes_in", p.traffic.in.Load())
	p.span.SetInt("bytes_out", p.traffic.out.Load())
	p.span.End(p.exit.code != 0)
}
