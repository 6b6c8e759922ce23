package egress

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
)

// inside is the state of a connection within a tunnel to an origin.
type inside struct {
	origin  *origin
	attempt attempt
	route   route
}

// concealed is the body of an answer in which credentials are replaced.
type concealed struct {
	finder
	io.Closer
}

// earlier is a connection from which some bytes have already been read.
type earlier struct {
	net.Conn
	r io.Reader
}

// Read implements io.Reader.
func (e earlier) Read(p []byte) (int, error) { return e.r.Read(p) }

// intercept terminates the TLS of a tunnel to an origin, and serves the requests in it until the
// process closes the connection. r holds the bytes that were already read from conn. The host of
// the tunnel is already allowed, and to is the route to it.
func (x *Proxy) intercept(conn net.Conn, r *bufio.Reader, o *origin, a attempt, to route) {
	inner := tls.Server(earlier{conn, r}, o.server)
	ctx, done := context.WithTimeout(x.ctx, headTime)
	err := inner.HandshakeContext(ctx)
	done()
	if err != nil {
		x.log.Info("network proxy: the process ended the TLS that adds credentials; does its program use the certificates of SSL_CERT_FILE?",
			"host", a.Host, "port", a.Port, "error", err)
		return
	}
	c := &web{
		proxy: x, conn: inner, client: a.client, inside: &inside{o, a, to},
		r: bufio.NewReaderSize(inner, readBuffer), w: bufio.NewWriter(inner),
	}
	for c.next() {
	}
	_ = inner.Close()
}

// serveInside serves one request within a tunnel to an origin. It reports whether
// the connection can be used for the next request.
func (c *web) serveInside(h *head, b *body) bool {
	a := c.inside.attempt
	a.method = h.Method
	t, err := h.insideTarget()
	switch {
	case err != nil:
		c.text(h, http.StatusBadRequest, err.Error())
		return c.keeps(h, b)
	case h.Method == http.MethodTrace:
		// The answer to TRACE repeats the headers of the request, with the credential.
		c.text(h, http.StatusMethodNotAllowed, "TRACE is not sent to a host that gets credentials")
		return c.keeps(h, b)
	case t.host != a.Host || t.port != a.Port:
		// A server for several hosts would serve the other host, which would then get a credential
		// of this host.
		c.text(h, http.StatusMisdirectedRequest, "the request names another host than the connection")
		return c.keeps(h, b)
	}
	out := h.outgoing(t, route{})
	out.URL.Scheme = "https"
	if strings.HasPrefix(out.URL.Opaque, "//") {
		// net/http adds the scheme; see outgoing.
		out.URL.Host = t.header
	}
	return c.exchange(h, b, &sending{attempt: a, origin: c.inside.origin, out: out, route: c.inside.route})
}

// insideTarget is target for a request within TLS, whose default port is 443.
func (h *head) insideTarget() (target, error) {
	if h.Method == http.MethodConnect {
		return target{}, errNoHost
	}
	t, err := h.target()
	if err != nil {
		return t, err
	}
	if strings.HasPrefix(h.RequestURI, "/") || h.RequestURI == "*" {
		t.host, t.port, err = authority(t.header, 443)
	} else if !t.tls {
		return t, errHostMismatch
	}
	return t, err
}

// sending is an allowed request that is being sent.
type sending struct {
	attempt attempt
	origin  *origin // nil: it gets no credentials
	out     *http.Request
	route   route
	secrets [][]byte // the credentials in it
}

// prepare adds credentials to the request, and searches it for placeholders of other hosts. If the
// request must not be sent, prepare answers it and returns false.
func (c *web) prepare(h *head, b *body, s *sending) bool {
	foreign := c.proxy.secrets.foreign(s.origin)
	if headHolds(h, foreign) {
		c.proxy.report(s.attempt, misuse(), false)
		c.refuse(h, s.attempt, misuse())
		return false
	}
	if s.origin != nil {
		var err error
		if s.secrets, err = s.origin.credentials(s.out); err != nil {
			c.proxy.log.Error("network proxy: no credentials", "host", s.attempt.Host, "headers", s.origin.names(), "error", err)
			c.text(h, http.StatusBadGateway, "the server cannot read the credential for this host; its log says why")
			return false
		}
		// A credential could not be found in a compressed answer, or in a partial answer whose
		// range the process has chosen.
		s.out.Header["Accept-Encoding"] = []string{"identity"}
		for _, name := range []string{"Range", "If-Range"} {
			delete(s.out.Header, name)
		}
	}
	if b != nil && len(foreign) > 0 {
		s.out.Body = &concealed{Closer: b, finder: finder{from: b, texts: foreign, found: func([]byte) error {
			c.proxy.report(s.attempt, misuse(), false)
			return errPlaceholder
		}}}
	}
	return true
}

// decompress decompresses an answer that is compressed although that was not requested: some hosts
// store files compressed. It returns an error for an unknown compression, because it could not find
// a credential in such an answer.
func decompress(resp *http.Response) error {
	coding := lower(strings.TrimSpace(strings.Join(resp.Header["Content-Encoding"], ",")))
	switch coding {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
	default:
		return errors.New("the host compresses its answer although the request forbids it; a credential in it could not be found")
	}
	delete(resp.Header, "Content-Encoding")
	resp.ContentLength = -1
	resp.Body = &decompressed{Closer: resp.Body, from: resp.Body}
	return nil
}

// decompressed is the body of an answer that was compressed with gzip.
type decompressed struct {
	io.Closer
	from io.Reader
	zip  *gzip.Reader // nil before the first Read
}

// Read implements io.Reader.
func (d *decompressed) Read(p []byte) (n int, err error) {
	if d.zip == nil {
		if d.zip, err = gzip.NewReader(d.from); err != nil {
			return 0, err
		}
	}
	return d.zip.Read(p)
}

// misuse returns the decision that blocks a request with a placeholder of another host.
func misuse() decision {
	return blocked(RulePlaceholder, ReasonPlaceholder, "a placeholder of a credential is for another host")
}

// failed answers a request that could not be completed. reason is the text of the error, without
// any part of the host's answer.
func (c *web) failed(h *head, s *sending, err error, reason string) {
	switch {
	case errors.Is(err, errPlaceholder): // reported when it was found
		c.refuse(h, s.attempt, misuse())
	case s.origin != nil && err != nil:
		c.text(h, http.StatusBadGateway, "connect to "+hostPort(s.attempt.Host, s.attempt.Port)+": "+reason)
	default:
		c.text(h, http.StatusBadGateway, upstreamFailure)
	}
}
