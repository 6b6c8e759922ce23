package execclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/internal/wait"
)

// DoHTTP lets the server make an HTTP request and returns the complete answer. See HTTP for
// large answers.
func (c *Client) DoHTTP(ctx context.Context, p execproto.HTTPRequestParams) (execproto.HTTPRequestResult, error) {
	var r execproto.HTTPRequestResult
	p.StreamResponse, p.DeltaWindow = false, 0
	err := c.Call(ctx, execproto.MethodHTTPRequest, &p, &r)
	return r, err
}

// HTTP returns a transport for an http.Client whose requests are made by the server, from its
// machine. It may be used by any number of goroutines.
//
// The body of a request is sent as a whole, of at most MaxRequestBody bytes; that of a
// response is streamed. No headers are added. The server ends a request soon after the
// deadline of its context. As with any transport, redirects are not followed; but 0.142.0's
// server follows them.
//
// The server sends the body as fast as it receives it. Servers of this project wait for a slow
// reader. With others, a body ends with an error when 16 MiB of it have not been read. A lost
// connection ends it, too.
func (c *Client) HTTP() http.RoundTripper { return &httpTransport{c} }

type httpTransport struct{ c *Client }

// RoundTrip makes a request. It is for http.Client.
func (t *httpTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	params, err := requestParams(req)
	if err != nil {
		return nil, err
	}
	if t.c.Has(execproto.NotifyHTTPAck) {
		params.DeltaWindow = deltaWindow
	}
	body := t.c.bodies.open(ctx, t.c)
	params.RequestID = body.id
	var r execproto.HTTPRequestResult
	if err := t.c.Call(ctx, execproto.MethodHTTPRequest, &params, &r); err != nil {
		_ = body.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("HTTP request failed: %w", err)
	}
	return response(req, r, body), nil
}

// requestParams returns a request for the server. It reads the body and closes it.
func requestParams(req *http.Request) (execproto.HTTPRequestParams, error) {
	p := execproto.HTTPRequestParams{
		Method: req.Method, Headers: []execproto.HTTPHeader{},
		StreamResponse: true, RedirectPolicy: execproto.RedirectStop,
	}
	body, err := requestBody(req)
	if err != nil {
		return p, err
	}
	p.Body = body
	if p.Method == "" {
		p.Method = http.MethodGet
	}
	target := url.URL{}
	if req.URL != nil {
		target = *req.URL
	}
	// An http.RoundTripper sends none of these.
	target.User, target.Fragment, target.RawFragment = nil, "", ""
	p.URL = target.String()
	if req.Host != "" && req.Host != target.Host {
		p.Headers = append(p.Headers, execproto.HTTPHeader{Name: "Host", Value: req.Host})
	}
	for name, values := range req.Header {
		switch http.CanonicalHeaderKey(name) {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue // the server sets these
		}
		for _, value := range values {
			p.Headers = append(p.Headers, execproto.HTTPHeader{Name: name, Value: value})
		}
	}
	if deadline, ok := req.Context().Deadline(); ok {
		ms := uint64(max(time.Until(deadline)+deadlineGrace, deadlineGrace).Milliseconds())
		p.TimeoutMS = &ms
	}
	return p, nil
}

// requestBody reads and closes the body of a request.
func requestBody(req *http.Request) ([]byte, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return nil, nil
	}
	defer req.Body.Close()
	if req.ContentLength > MaxRequestBody {
		return nil, errBodyTooLarge
	}
	// Closing the body ends a Read that blocks, of a pipe for example.
	defer context.AfterFunc(req.Context(), func() { _ = req.Body.Close() })()
	body, err := io.ReadAll(io.LimitReader(req.Body, MaxRequestBody+1))
	switch {
	case req.Context().Err() != nil:
		return nil, req.Context().Err()
	case err != nil:
		return nil, fmt.Errorf("read the body of the request: %w", err)
	case len(body) > MaxRequestBody:
		return nil, errBodyTooLarge
	}
	return body, nil
}

var errBodyTooLarge = fmt.Errorf("HTTP request failed: its body exceeds %d bytes, which is the most that can be sent through an exec-server", MaxRequestBody)

// response converts the server's answer for net/http.
func response(req *http.Request, r execproto.HTTPRequestResult, body io.ReadCloser) *http.Response {
	header := make(http.Header, len(r.Headers))
	for _, h := range r.Headers {
		header.Add(h.Name, h.Value)
	}
	length := int64(-1)
	if n, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		length = n
	}
	return &http.Response{
		Status: strconv.Itoa(r.Status) + " " + http.StatusText(r.Status), StatusCode: r.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, ContentLength: length, Body: body, Request: req,
	}
}

// bodyStreams routes the deltas of streamed bodies. Its zero value is ready.
type bodyStreams struct {
	mu      sync.Mutex
	last    uint64 // the newest id
	streams map[string]*bodyStream
}

// open registers a stream before its request is sent, because deltas may arrive with the
// answer.
func (b *bodyStreams) open(ctx context.Context, c *Client) *bodyStream {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	s := &bodyStream{c: c, ctx: ctx, id: "http-" + strconv.FormatUint(b.last, 10), moved: make(chan struct{}, 1)}
	if b.streams == nil {
		b.streams = make(map[string]*bodyStream)
	}
	b.streams[s.id] = s
	return s
}

// remove unregisters a stream and reports whether it was registered.
func (b *bodyStreams) remove(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.streams[id]
	delete(b.streams, id)
	return ok
}

// deliver routes a delta. Deltas of closed streams are dropped.
func (b *bodyStreams) deliver(d execproto.HTTPBodyDelta) {
	b.mu.Lock()
	s := b.streams[d.RequestID]
	b.mu.Unlock()
	if s != nil && s.deliver(d) {
		b.remove(s.id)
	}
}

// fail ends all streams, because they belong to the lost connection.
func (b *bodyStreams) fail(err error) {
	b.mu.Lock()
	streams := b.streams
	b.streams = nil
	b.mu.Unlock()
	for _, s := range streams {
		s.finish(err)
	}
}

// bodyStream is a streamed body. The client's reader calls deliver, which never blocks.
type bodyStream struct {
	c     *Client
	ctx   context.Context // context of the request
	id    string
	moved chan struct{} // wakes Read

	mu     sync.Mutex
	queue  []execproto.HTTPBodyDelta
	size   int    // bytes in the queue
	seq    uint64 // of the newest delta
	end    error  // returned after the queue; io.EOF at the end of the body
	closed bool

	// Used by Read only.
	rest  []byte
	taken uint64 // the number of the delta that rest belongs to
	acked uint64
}

// deliver adds the next delta and reports whether it is the last.
func (s *bodyStream) deliver(d execproto.HTTPBodyDelta) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer wait.Wake(s.moved)
	if s.end != nil {
		return true
	}
	s.seq++
	switch {
	case d.Seq != s.seq:
		s.end = protocolf("http response stream `%s` received seq %d, expected %d", s.id, d.Seq, s.seq)
	case d.Error != nil:
		s.end = fmt.Errorf("http response stream `%s` failed: %s", s.id, *d.Error)
	case len(d.Delta) > 0 && len(s.queue) >= maxDeltas && s.size >= maxDeltaBytes,
		// Deltas of other servers may be larger.
		len(d.Delta) > 0 && len(s.queue) > 0 && s.size+len(d.Delta) > 2*maxDeltaBytes:
		s.end = fmt.Errorf("http response stream `%s` failed: body delta channel filled before delivery", s.id)
	default:
		s.enqueue(d)
		if d.Done {
			s.end = io.EOF
		}
	}
	return s.end != nil
}

// enqueue appends a delta to the queue, or to the last delta if both are small. The lock is
// held.
func (s *bodyStream) enqueue(d execproto.HTTPBodyDelta) {
	s.size += len(d.Delta)
	if last := len(s.queue) - 1; last >= 0 && len(s.queue[last].Delta)+len(d.Delta) <= mergeDelta {
		s.queue[last].Delta, s.queue[last].Seq = append(s.queue[last].Delta, d.Delta...), d.Seq
	} else if len(d.Delta) > 0 {
		s.queue = append(s.queue, d)
	}
}

func (s *bodyStream) finish(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end == nil {
		s.end = err
	}
	wait.Wake(s.moved)
}

// Read returns received data of the body, or waits for more.
func (s *bodyStream) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		ready, err := s.take()
		if err != nil {
			return 0, err
		}
		if ready {
			s.maybeAck()
			continue
		}
		select {
		case <-s.moved:
		case <-s.ctx.Done():
			_ = s.Close()
			return 0, s.ctx.Err()
		}
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// take moves the next delta to rest, if there is one.
func (s *bodyStream) take() (ready bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		return false, s.ctx.Err()
	case s.closed:
		return false, http.ErrBodyReadAfterClose
	case len(s.queue) == 0:
		return false, s.end
	}
	d := s.queue[0]
	s.queue[0] = execproto.HTTPBodyDelta{}
	s.queue = s.queue[1:]
	s.size -= len(d.Delta)
	s.rest, s.taken = d.Delta, d.Seq
	return true, nil
}

// maybeAck acknowledges the deltas that were read, if there are enough of them.
func (s *bodyStream) maybeAck() {
	read := s.taken - 1
	if read-s.acked < deltaAckEvery || !s.c.Has(execproto.NotifyHTTPAck) {
		return
	}
	s.acked = read
	// If this fails the connection is lost, and the stream ends with it.
	_ = s.c.notify(s.ctx, execproto.NotifyHTTPAck, &execproto.HTTPAck{RequestID: s.id, Seq: read})
}

// Close ends the reading. It tells a server that waits for a slow reader to continue: the
// protocol cannot end the request.
func (s *bodyStream) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed, s.queue = true, nil
	wait.Wake(s.moved)
	s.mu.Unlock()
	if again || !s.c.bodies.remove(s.id) || !s.c.Has(execproto.NotifyHTTPAck) {
		return nil
	}
	s.c.background(func(ctx context.Context) {
		err := s.c.notify(ctx, execproto.NotifyHTTPAck, &execproto.HTTPAck{RequestID: s.id, Seq: ackAll})
		if err != nil && !errors.Is(err, ctx.Err()) {
			s.c.log.Debug("could not let an abandoned response go", "request", s.id, "error", err)
		}
	})
	return nil
}
