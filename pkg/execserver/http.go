package execserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/execserver/tracing"
	"codex.internal/pkg/host/fetch"
)

// streamTable has the streamed HTTP responses of a connection by their ids. It also counts the
// buffered bytes of the other responses, and the memory of decoders (docs/spec/wire.md §6).
type streamTable struct {
	mu       sync.Mutex
	active   map[string]*deltas
	buffered int
}

// claim reserves an id for a streamed response. window is how many of its deltas may be
// unacknowledged; 0: any number.
func (t *streamTable) claim(id string, window uint64) (*deltas, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.active[id] != nil {
		return nil, execproto.InvalidParams(fmt.Sprintf("http/request streamResponse requestId `%s` is already active", shorten(id)))
	}
	if t.active == nil {
		t.active = make(map[string]*deltas)
	}
	d := &deltas{id: id, window: min(window, maxDeltaWindow), acks: make(chan struct{}, 1)}
	t.active[id] = d
	return d, nil
}

func (t *streamTable) release(id string) {
	t.mu.Lock()
	delete(t.active, id)
	t.mu.Unlock()
}

// find returns the stream with that id, or nil.
func (t *streamTable) find(id string) *deltas {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.active[id]
}

// deltas counts the deltas of a streamed response. One goroutine sends; any may
// acknowledge.
type deltas struct {
	id     string        // id of the stream
	window uint64        // how many may be unacknowledged; 0: any number
	sent   uint64        // used by the sender only
	acked  atomic.Uint64 // the highest acknowledged number
	acks   chan struct{} // signals acknowledgements; capacity 1
}

// ack acknowledges the deltas up to seq. Only the connection's reader calls it.
func (d *deltas) ack(seq uint64) {
	if seq <= d.acked.Load() {
		return
	}
	d.acked.Store(seq)
	select {
	case d.acks <- struct{}{}:
	default:
	}
}

// await waits until another delta may be sent.
func (d *deltas) await(ctx context.Context) error {
	for d.window > 0 && d.sent >= d.window && d.sent-d.window >= d.acked.Load() {
		select {
		case <-d.acks:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// httpAck frees space in a stream's window. An unknown stream is not an error,
// because it may have ended meanwhile.
func httpAck(c *conn, params *execproto.HTTPAck) {
	if d := c.streams.find(params.RequestID); d != nil {
		d.ack(params.Seq)
	}
}

// reserve adds n bytes to the buffered bodies, or returns an error if that would
// exceed bufferedHTTP.
func (t *streamTable) reserve(n int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.buffered+n > bufferedHTTP {
		return observe.AtLimit(observe.LimitHTTPBodies, execproto.Internal("http/request failed: too many response bodies are being buffered or decoded for this connection; use streamResponse, or accept-encoding: identity"))
	}
	t.buffered += n
	return nil
}

func (t *streamTable) free(n int) {
	t.mu.Lock()
	t.buffered -= n
	t.mu.Unlock()
}

// httpRequest makes an HTTP request. The id of a streamed response is reserved
// on the reader, so that acknowledgements find it.
func httpRequest(c *conn, p *execproto.HTTPRequestParams) (call, error) {
	request := fetch.Request{
		Method: p.Method, URL: p.URL, Body: p.Body,
		StopRedirects: p.RedirectPolicy == execproto.RedirectStop,
	}
	for _, h := range p.Headers {
		request.Headers = append(request.Headers, fetch.Header{Name: h.Name, Value: h.Value, EnvVar: h.ValueEnvVar})
	}
	if p.TimeoutMS != nil {
		request.Timeout = time.Duration(min(*p.TimeoutMS, uint64(execproto.MaxWait/time.Millisecond))) * time.Millisecond
		request.HasTimeout = true
	}
	if !p.StreamResponse {
		return call{run: func(ctx context.Context) (reply.Result, error) { return c.bufferHTTP(ctx, request) }}, nil
	}
	d, err := c.streams.claim(p.RequestID, p.DeltaWindow)
	if err != nil {
		return call{}, err
	}
	return call{
		run:  func(ctx context.Context) (reply.Result, error) { return c.streamHTTP(ctx, d, request) },
		drop: func() { c.streams.release(d.id) },
	}, nil
}

// bufferHTTP makes a request and returns the whole response.
func (c *conn) bufferHTTP(ctx context.Context, request fetch.Request) (reply.Result, error) {
	response, err := c.fetch(ctx, request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	reserved := 0
	body, err := response.ReadAll(func(n int) error {
		err := c.streams.reserve(n)
		if err == nil {
			reserved += n
		}
		return err
	})
	if err != nil {
		c.streams.free(reserved)
		return nil, err
	}
	return reply.Followed{Result: httpResult(response, body), Then: func() { c.streams.free(reserved) }}, nil
}

// httpResult returns the result with the head of a response and a body.
func httpResult(response *fetch.Response, body []byte) reply.Result {
	r := execproto.HTTPRequestResult{Status: response.Status, Headers: headers(response.Headers)}
	if len(body) <= reply.MaxInline {
		r.Body = body
		return r
	}
	// Without its body, the text of the result ends with an empty body.
	head := string(r.AppendJSON(nil))
	return reply.Large{Head: strings.TrimSuffix(head, `"}`), Data: reply.Bytes(body), Tail: `"}`}
}

// streamHTTP makes a request and returns the head of the response; the body
// follows in deltas.
func (c *conn) streamHTTP(ctx context.Context, d *deltas, request fetch.Request) (reply.Result, error) {
	response, err := c.fetch(ctx, request)
	if err != nil {
		c.streams.release(d.id)
		return nil, err
	}
	return reply.Followed{Result: httpResult(response, nil), Then: func() { c.sendDeltas(ctx, d, response.Body) }}, nil
}

// sendDeltas sends the body of a response in deltas, and closes the body.
func (c *conn) sendDeltas(ctx context.Context, d *deltas, body io.ReadCloser) {
	defer body.Close()
	buf := make([]byte, httpDelta)
	for {
		if d.await(ctx) != nil {
			c.streams.release(d.id)
			return
		}
		n, err := body.Read(buf)
		if n > 0 {
			d.sent++
			delta := execproto.HTTPBodyDelta{RequestID: d.id, Seq: d.sent, Delta: buf[:n]}
			if c.out.send(ctx, execproto.Notify(&delta)) != nil {
				c.streams.release(d.id)
				return
			}
		}
		if err == nil {
			continue
		}
		last := execproto.HTTPBodyDelta{RequestID: d.id, Seq: d.sent + 1, Done: true}
		if !errors.Is(err, io.EOF) {
			text := err.Error()
			last.Error = &text
		}
		// Release the id before the client can see the end and use the id again.
		c.streams.release(d.id)
		_ = c.out.send(ctx, execproto.Notify(&last))
		return
	}
}

// fetch makes an HTTP request for a client and reports it to observers. It returns when the
// head of the response has arrived.
func (c *conn) fetch(ctx context.Context, request fetch.Request) (response *fetch.Response, err error) {
	seen := observe.HTTP{Session: c.session.seen(), Method: request.Method, URL: request.URL, Within: tracing.From(ctx)}
	seen.Err = c.srv.events.HTTPStarting.Ask(&seen)
	if seen.Err == nil {
		response, seen.Err = c.srv.fetcher.Do(ctx, request)
	}
	if seen.Err == nil {
		seen.Status = response.Status
		seen.Err = c.streams.reserveDecoder(response)
	}
	c.srv.events.HTTPDone.Tell(&seen)
	return response, seen.Err
}

// reserveDecoder reserves the memory of the decoder of a response's body, and frees it when the
// body is closed. If that memory would exceed bufferedHTTP, it closes the body and returns an error.
func (t *streamTable) reserveDecoder(response *fetch.Response) error {
	n := response.DecoderMemory
	if n == 0 {
		return nil
	}
	if err := t.reserve(n); err != nil {
		_ = response.Body.Close()
		return err
	}
	response.Body = &reservedBody{response.Body, sync.OnceFunc(func() { t.free(n) })}
	return nil
}

// reservedBody frees the memory of its decoder when it is closed.
type reservedBody struct {
	io.ReadCloser
	free func()
}

func (b *reservedBody) Close() error {
	defer b.free()
	return b.ReadCloser.Close()
}

func headers(in []fetch.Header) []execproto.HTTPHeader {
	out := make([]execproto.HTTPHeader, len(in))
	for i, h := range in {
		out[i] = execproto.HTTPHeader{Name: h.Name, Value: h.Value}
	}
	return out
}
