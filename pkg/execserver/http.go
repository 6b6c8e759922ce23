//go:build linux || darwin

package execserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fetch"
)

// streamTable holds the ids of a connection's streamed HTTP responses, and
// counts what it buffers of the others (section 6).
type streamTable struct {
	mu       sync.Mutex
	active   map[string]bool
	buffered int
}

// claim takes an id for a streamed response.
func (t *streamTable) claim(id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.active[id] {
		return invalidParams(fmt.Sprintf("http/request streamResponse requestId `%s` is already active", clip(id)))
	}
	if t.active == nil {
		t.active = make(map[string]bool)
	}
	t.active[id] = true
	return nil
}

func (t *streamTable) release(id string) {
	t.mu.Lock()
	delete(t.active, id)
	t.mu.Unlock()
}

// reserve counts n bytes of buffered body, refusing what would be too much.
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

// httpRequest makes a request in a goroutine that only waits, so that a slow
// server delays nothing else.
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
	if p.StreamResponse {
		if err := rq.c.streams.claim(id); err != nil {
			rq.fail(err)
			return
		}
	}
	rq.wait(func(ctx context.Context) {
		if p.StreamResponse {
			rq.streamHTTP(ctx, id, request)
			return
		}
		rq.bufferHTTP(ctx, request)
	})
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

// streamHTTP answers with the head of the response and tells its body in
// deltas.
func (rq *request) streamHTTP(ctx context.Context, id string, request fetch.Request) {
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
	seq := uint64(0)
	for {
		n, err := response.Body.Read(buf)
		if n > 0 {
			seq++
			delta := execproto.HTTPBodyDelta{RequestID: id, Seq: seq, Delta: buf[:n]}
			if c.out.send(ctx, delta.AppendJSON) != nil {
				c.streams.release(id)
				return
			}
		}
		if err == nil {
			continue
		}
		last := execproto.HTTPBodyDelta{RequestID: id, Seq: seq + 1, Done: true}
		if !errors.Is(err, io.EOF) {
			text := err.Error()
			last.Error = &text
		}
		// The id is free before the client can know that it is.
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
