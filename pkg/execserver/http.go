//go:build linux || darwin

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
	"codex.internal/pkg/host/fetch"
)

// streamTable holds a connection's streamed HTTP responses by their ids, and
// counts what it buffers of the others (docs/spec/wire.md §6).
type streamTable struct {
	mu       sync.Mutex
	active   map[string]*deltas
	buffered int
}

// claim takes an id for a streamed response of which at most window deltas
// may be unacknowledged; 0: any number.
func (t *streamTable) claim(id string, window uint64) (*deltas, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.active[id] != nil {
		return nil, invalidParams(fmt.Sprintf("http/request streamResponse requestId `%s` is already active", shorten(id)))
	}
	if t.active == nil {
		t.active = make(map[string]*deltas)
	}
	d := &deltas{window: min(window, maxDeltaWindow), room: make(chan struct{}, 1)}
	t.active[id] = d
	return d, nil
}

func (t *streamTable) release(id string) {
	t.mu.Lock()
	delete(t.active, id)
	t.mu.Unlock()
}

// find returns the stream of that id, or nil.
func (t *streamTable) find(id string) *deltas {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.active[id]
}

// deltas counts the deltas of a streamed response. One goroutine sends; any may
// acknowledge.
type deltas struct {
	window uint64        // how many may be unacknowledged; 0: any number
	sent   uint64        // used by the sender only
	acked  atomic.Uint64 // the highest number that was acknowledged
	room   chan struct{} // signals acknowledgements; capacity 1
}

// ack acknowledges the deltas up to seq. Only the connection's reader calls it.
func (d *deltas) ack(seq uint64) {
	if seq <= d.acked.Load() {
		return
	}
	d.acked.Store(seq)
	select {
	case d.room <- struct{}{}:
	default:
	}
}

// await waits until another delta may be sent.
func (d *deltas) await(ctx context.Context) error {
	for d.window > 0 && d.sent >= d.window && d.sent-d.window >= d.acked.Load() {
		select {
		case <-d.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// httpAck makes room in a stream's window. An unknown stream is no error: it may
// have ended meanwhile.
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
		return internal("http/request failed: too many response bodies are being buffered for this connection; use streamResponse")
	}
	t.buffered += n
	return nil
}

func (t *streamTable) free(n int) {
	t.mu.Lock()
	t.buffered -= n
	t.mu.Unlock()
}

// httpRequest makes an HTTP request in a goroutine of its own, so that a slow
// server delays no other request.
func httpRequest(rq *request, p *execproto.HTTPRequestParams) {
	request := fetch.Request{
		Method: p.Method, URL: p.URL, Body: p.Body,
		StopRedirects: p.RedirectPolicy == execproto.RedirectStop,
	}
	for _, h := range p.Headers {
		request.Headers = append(request.Headers, fetch.Header{Name: h.Name, Value: h.Value, EnvVar: h.ValueEnvVar})
	}
	if p.TimeoutMS != nil {
		request.Timeout = time.Duration(min(*p.TimeoutMS, uint64(maxWait/time.Millisecond))) * time.Millisecond
		request.HasTimeout = true
	}
	id := strings.Clone(p.RequestID)
	if !p.StreamResponse {
		rq.wait(func(ctx context.Context) { rq.bufferHTTP(ctx, request) })
		return
	}
	d, err := rq.c.streams.claim(id, p.DeltaWindow)
	if err != nil {
		rq.fail(err)
		return
	}
	if !rq.wait(func(ctx context.Context) { rq.streamHTTP(ctx, id, d, request) }) {
		rq.c.streams.release(id)
	}
}

// bufferHTTP answers with the whole response.
func (rq *request) bufferHTTP(ctx context.Context, request fetch.Request) {
	response, err := rq.c.srv.fetcher.Do(ctx, request)
	if err != nil {
		rq.fail(err)
		return
	}
	defer response.Body.Close()
	reserved := 0
	defer func() { rq.c.streams.free(reserved) }()
	body, err := response.ReadAll(func(n int) error {
		err := rq.c.streams.reserve(n)
		if err == nil {
			reserved += n
		}
		return err
	})
	if err != nil {
		rq.fail(err)
		return
	}
	result := execproto.HTTPRequestResult{Status: response.Status, Headers: headers(response.Headers)}
	if len(body) <= inlineBody {
		result.Body = body
		rq.result(result)
		return
	}
	// The result without its body ends with the body's empty text.
	head := string(result.AppendJSON(nil))
	rq.stream(strings.TrimSuffix(head, `"}`), bytesSource(body), `"}`)
}

// streamHTTP answers with the head of the response and sends its body in deltas.
func (rq *request) streamHTTP(ctx context.Context, id string, d *deltas, request fetch.Request) {
	response, err := rq.c.srv.fetcher.Do(ctx, request)
	if err != nil {
		rq.c.streams.release(id)
		rq.fail(err)
		return
	}
	defer response.Body.Close()
	c := rq.c
	rq.result(execproto.HTTPRequestResult{Status: response.Status, Headers: headers(response.Headers)})
	buf := make([]byte, httpDelta)
	for {
		if d.await(ctx) != nil {
			c.streams.release(id)
			return
		}
		n, err := response.Body.Read(buf)
		if n > 0 {
			d.sent++
			delta := execproto.HTTPBodyDelta{RequestID: id, Seq: d.sent, Delta: buf[:n]}
			if c.out.send(ctx, delta.AppendJSON) != nil {
				c.streams.release(id)
				return
			}
		}
		if err == nil {
			continue
		}
		last := execproto.HTTPBodyDelta{RequestID: id, Seq: d.sent + 1, Done: true}
		if !errors.Is(err, io.EOF) {
			text := err.Error()
			last.Error = &text
		}
		// Free the id before the client can see the end and use it again.
		c.streams.release(id)
		_ = c.out.send(ctx, last.AppendJSON)
		return
	}
}

func headers(in []fetch.Header) []execproto.HTTPHeader {
	out := make([]execproto.HTTPHeader, len(in))
	for i, h := range in {
		out[i] = execproto.HTTPHeader{Name: h.Name, Value: h.Value}
	}
	return out
}
