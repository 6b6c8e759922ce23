package egress

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"time"

	"codex.internal/pkg/wire/jsonwire"
)

// web is one connection to the HTTP proxy. It serves requests one after the other, in order of
// arrival.
type web struct {
	proxy  *Proxy
	conn   net.Conn
	r      *bufio.Reader
	w      *bufio.Writer
	client string
	inside *inside // nil: it is not within a tunnel
}

// serveHTTP serves one connection of the HTTP proxy. It does not use net/http's server: see
// readHead.
func (x *Proxy) serveHTTP(conn net.Conn) {
	c := &web{
		proxy: x, conn: conn, client: conn.RemoteAddr().String(),
		r: bufio.NewReaderSize(conn, readBuffer), w: bufio.NewWriter(conn),
	}
	for c.next() {
	}
}

// next serves the next request. It reports whether the connection can be used for another one.
func (c *web) next() bool {
	size := &headSize{admit: c.proxy.admitHead}
	defer func() {
		if size.large {
			c.proxy.releaseHead()
		}
	}()
	_ = c.conn.SetReadDeadline(time.Now().Add(headTime))
	h, err := readHead(c.r, size)
	_ = c.conn.SetReadDeadline(time.Time{})
	switch {
	case errors.Is(err, errBadHead):
		c.last("400 Bad Request")
		return false
	case errors.Is(err, errLargeHead):
		c.last("431 Request Header Fields Too Large")
		return false
	case errors.Is(err, errBusyHead):
		c.last("503 Service Unavailable")
		return false
	case err != nil:
		return false
	}
	more := c.serve(h)
	if c.w.Flush() != nil {
		return false
	}
	if !more {
		finish(c.conn)
	}
	return more
}

// refuseHTTP answers a connection beyond the limit.
func (x *Proxy) refuseHTTP(conn net.Conn) {
	_ = conn.SetWriteDeadline(time.Now().Add(lingerTime))
	_, _ = io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"+
		"too many connections are open through the network proxy")
}

// last answers with a status and no body, and closes the connection.
func (c *web) last(status string) {
	_, _ = c.w.WriteString("HTTP/1.1 " + status + "\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
	if c.w.Flush() == nil {
		finish(c.conn)
	}
}

// serve serves one request. It reports whether the connection can be used for another one.
func (c *web) serve(h *head) bool {
	x := c.proxy
	b := newBody(h, c.r)
	if b != nil && h.ProtoAtLeast(1, 1) && strings.EqualFold(h.Header.Get("Expect"), "100-continue") {
		b.proceed = c.proceed
	}
	if c.inside != nil {
		return c.serveInside(h, b)
	}
	if h.Header["X-Unix-Socket"] != nil && h.Method != http.MethodConnect {
		c.refuseUnix(h)
		return c.keeps(h, b)
	}
	t, err := h.target()
	if err != nil {
		c.text(h, http.StatusBadRequest, err.Error())
		return c.keeps(h, b)
	}
	a := attempt{Question: Question{HTTP, t.host, t.port}, method: h.Method, client: c.client}
	if h.Method == http.MethodConnect {
		a.Protocol, a.Host = Connect, x.names.meant(t.host)
	}
	to := route{port: t.port, upstream: x.upstream(a.Question)}
	d := x.decide(x.ctx, a.Question, to.upstream != nil)
	if d.asked && x.gone(c.conn, c.r) {
		return false
	}
	x.report(a, d, true)
	if d.verdict != Pass {
		c.refuse(h, a, d)
		return c.keeps(h, b)
	}
	to.addresses = d.addresses
	switch {
	case x.policy.config.Limited && !safe(h.Method):
		d = guarded(ReasonMethod)
		if a.Protocol == Connect {
			d = guarded(ReasonMITM)
		}
		x.report(a, d, false)
		c.refuse(h, a, d)
		return c.keeps(h, b)
	case a.Protocol == Connect && x.secrets.origin(a.Question) != nil:
		c.accept()
		if c.w.Flush() == nil {
			x.intercept(c.conn, c.r, x.secrets.origin(a.Question), a, to)
		}
		return false
	case a.Protocol == Connect:
		return c.connect(h, a.Question, to)
	case t.tls:
		c.text(h, http.StatusBadGateway, upstreamFailure)
		return c.keeps(h, b)
	default:
		return c.exchange(h, b, &sending{attempt: a, out: h.outgoing(t, to), route: to})
	}
}

// safe reports whether the limited mode permits a method.
func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// keeps reports whether the connection can be used for another request after an answer that was
// sent before the request's body was read.
func (c *web) keeps(h *head, b *body) bool {
	return c.w.Flush() == nil && !h.Close && b.drained()
}

// proceed asks the process for a body that it holds back (100 Continue).
func (c *web) proceed() {
	_, _ = c.w.WriteString("HTTP/1.1 100 Continue\r\n\r\n")
	_ = c.w.Flush()
}

// upstreamFailure is the text of the answer to an allowed request that failed.
const upstreamFailure = "upstream failure"

// answer writes a complete answer. more are header lines, each with its line end.
func (c *web) answer(h *head, status int, kind, more string, text []byte) {
	proto := "HTTP/1.1 "
	if !h.ProtoAtLeast(1, 1) {
		proto = "HTTP/1.0 "
	}
	_, _ = c.w.WriteString(proto + strconv.Itoa(status) + " " + http.StatusText(status) + "\r\ncontent-type: " + kind + "\r\n" + more +
		"content-length: " + strconv.Itoa(len(text)) + "\r\ndate: " + time.Now().UTC().Format(http.TimeFormat) + "\r\n")
	if h.Close {
		_, _ = c.w.WriteString("connection: close\r\n")
	}
	_, _ = c.w.WriteString("\r\n")
	if h.Method != http.MethodHead {
		_, _ = c.w.Write(text)
	}
}

func (c *web) text(h *head, status int, text string) {
	c.answer(h, status, "text/plain", "", []byte(text))
}

// refuse answers a request that the policy refuses.
func (c *web) refuse(h *head, a attempt, d decision) {
	r := refusalOf(d.reason)
	more := "x-proxy-error: " + r.code + "\r\n"
	if a.Protocol == Connect {
		c.answer(h, http.StatusForbidden, "text/plain", more, []byte(r.message))
		return
	}
	text := []byte(`{"status":"blocked","host":`)
	add := func(name, value string) {
		text = append(append(append(text, `,"`...), name...), `":`...)
		text = jsonwire.AppendString(text, value)
	}
	text = jsonwire.AppendString(text, a.Host)
	add("reason", d.reason)
	add("decision", string(d.verdict))
	add("source", string(d.source))
	add("protocol", string(a.Protocol))
	text = append(text, `,"port":`...)
	text = jsonwire.AppendUint(text, uint64(a.Port))
	add("message", r.message)
	c.answer(h, http.StatusForbidden, "application/json", more, append(text, '}'))
}

// refuseUnix refuses a request for a Unix socket.
func (c *web) refuseUnix(h *head) {
	a := attempt{Question: Question{HTTP, "unix-socket", 0}, method: h.Method, client: c.client}
	if c.proxy.policy.config.Limited && !safe(h.Method) {
		c.proxy.report(a, guarded(ReasonMethod), false)
		c.answer(h, http.StatusForbidden, "application/json", "x-proxy-error: "+refusalOf(ReasonMethod).code+"\r\n",
			[]byte(`{"status":"blocked","host":"unix-socket","reason":"method_not_allowed"}`))
		return
	}
	c.proxy.report(a, decision{verdict: Block, source: State, by: RuleUnixSocket, reason: ReasonUnix, rule: "Unix sockets"}, false)
	c.text(h, http.StatusNotImplemented, "unix sockets unsupported")
}

// connect serves a CONNECT. It connects to the host before it answers, because no error can be sent
// to the process after a 200.
func (c *web) connect(h *head, q Question, to route) bool {
	out, early, err := c.proxy.tunnelTo(c.proxy.ctx, q, to)
	if err != nil {
		status := http.StatusBadGateway
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
			status = http.StatusGatewayTimeout
		}
		c.text(h, status, "connect to "+hostPort(q.Host, q.Port)+": "+err.Error())
		return c.keeps(h, nil)
	}
	c.accept()
	if c.w.Flush() != nil {
		_ = out.Close()
		return false
	}
	c.proxy.tunnel(c.conn, c.r, out, early)
	return false
}

// accept answers a CONNECT.
func (c *web) accept() {
	_, _ = c.w.WriteString("HTTP/1.1 200 OK\r\ndate: " + time.Now().UTC().Format(http.TimeFormat) + "\r\n\r\n")
}

// routeKey is the key of a request's route in its context.
type routeKey struct{}

// newTransport returns the client side of the HTTP proxy: net/http's transport, which reuses
// connections, and which connects along the route of each request.
func (x *Proxy) newTransport() *http.Transport {
	routeOf := func(ctx context.Context) route {
		r, _ := ctx.Value(routeKey{}).(route)
		return r
	}
	return &http.Transport{
		Proxy: func(rq *http.Request) (*url.URL, error) { return routeOf(rq.Context()).upstream, nil },
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return x.dial(ctx, routeOf(ctx))
		},
		DisableCompression:     true,
		MaxIdleConns:           idleOutside,
		MaxIdleConnsPerHost:    idleOutside,
		IdleConnTimeout:        idleOutsideTime,
		ExpectContinueTimeout:  continueTime,
		MaxResponseHeaderBytes: maxAnswerHead,
	}
}

// exchange forwards a request, and forwards its answer.
func (c *web) exchange(h *head, b *body, s *sending) bool {
	ctx, done := context.WithCancel(context.WithValue(c.proxy.ctx, routeKey{}, s.route))
	defer done()
	out, transport := s.out, c.proxy.transport
	if s.origin != nil {
		transport = s.origin.transport
	}
	if b != nil {
		out.Body = b
	}
	if !c.prepare(h, b, s) {
		return c.keeps(h, b)
	}
	connected := false
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }}
	if b != nil {
		trace.Got100Continue = func() { b.once.Do(func() { callIf(b.proceed) }) }
	}
	resp, err := transport.RoundTrip(out.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if b != nil {
		// The transport may still read the body. It must then not write 100 Continue into the
		// answer.
		b.once.Do(func() {})
	}
	if err != nil || resp.StatusCode == http.StatusSwitchingProtocols {
		if err == nil {
			_ = resp.Body.Close()
		}
		reason := reasonOf(err)
		if !connected && err != nil {
			reason = err.Error()
		}
		c.proxy.log.Debug("network proxy: forward", "host", s.attempt.Host, "port", s.attempt.Port, "error", reason)
		c.failed(h, s, err, reason)
		return c.keeps(h, nil) && (b == nil || b.ended.Load())
	}
	defer resp.Body.Close()
	if s.origin != nil && !bodiless(h, resp) {
		if err := decompress(resp); err != nil {
			c.text(h, http.StatusBadGateway, err.Error())
			return c.keeps(h, nil) && (b == nil || b.ended.Load())
		}
	}
	conceal(resp, s.secrets)
	more := c.copyAnswer(h, resp, s.secrets)
	// The transport may still read the body, until the connection is closed.
	return more && (b == nil || b.ended.Load())
}

// reasonOf returns the text of a failure after a connection was made. err is nil if the answer
// cannot be forwarded. For that, and for errors of parsing an answer, it returns a fixed text: a
// parse error contains a part of the answer, which may be the credential, quoted or truncated.
func reasonOf(err error) string {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errPlaceholder) {
		return err.Error()
	}
	return "its answer is not one of HTTP"
}

// bodiless reports whether an answer has no body.
func bodiless(h *head, resp *http.Response) bool {
	return h.Method == http.MethodHead || resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified
}

func callIf(f func()) {
	if f != nil {
		f()
	}
}

// copyAnswer writes the far side's answer. It reports whether the connection can
// be used for another request.
func (c *web) copyAnswer(h *head, resp *http.Response, secrets [][]byte) bool {
	bodiless := bodiless(h, resp)
	chunked := !bodiless && resp.ContentLength < 0 && h.ProtoAtLeast(1, 1)
	closes := h.Close || !bodiless && resp.ContentLength < 0 && !chunked
	headers, framing := endToEnd(resp.Header), ""
	if !bodiless {
		headers.Del("Content-Length")
	}
	switch {
	case chunked:
		framing = "transfer-encoding: chunked\r\n"
	case !bodiless && resp.ContentLength >= 0:
		framing = "content-length: " + strconv.FormatInt(resp.ContentLength, 10) + "\r\n"
	}
	proto := "HTTP/1.1 "
	if !h.ProtoAtLeast(1, 1) {
		proto = "HTTP/1.0 "
	}
	if closes {
		framing += "connection: close\r\n"
	} else if !h.ProtoAtLeast(1, 1) {
		framing += "connection: keep-alive\r\n"
	}
	var text strings.Builder
	text.WriteString(resp.Status + "\r\n")
	_ = headers.Write(&text)
	_, _ = c.w.WriteString(proto + hide(text.String(), secrets) + framing + "\r\n")
	if bodiless {
		return c.w.Flush() == nil && !closes
	}
	return c.copyBody(resp.Body, chunked) == nil && !closes
}

// copyBody writes a body, each part as soon as it arrives.
func (c *web) copyBody(from io.Reader, chunked bool) error {
	buffer := make([]byte, copyBuffer)
	for {
		n, err := from.Read(buffer)
		if n > 0 && chunked {
			_, _ = c.w.WriteString(strconv.FormatInt(int64(n), 16) + "\r\n")
		}
		if n > 0 {
			_, _ = c.w.Write(buffer[:n])
		}
		if n > 0 && chunked {
			_, _ = c.w.WriteString("\r\n")
		}
		switch {
		case errors.Is(err, io.EOF):
			if chunked {
				_, _ = c.w.WriteString("0\r\n\r\n")
			}
			return c.w.Flush()
		case err != nil:
			// Close the connection, so that the process notices that the answer is incomplete.
			_ = c.conn.Close()
			return err
		}
		if err := c.w.Flush(); err != nil {
			return err
		}
	}
}
