package websocket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	gorilla "github.com/gorilla/websocket"
)

// DialError is the error of a failed attempt to connect.
type DialError struct {
	// URL is the server's URL without credentials; see PublicURL.
	URL string
	// Timeout is the limit that was exceeded, if that was the reason, else 0.
	Timeout time.Duration
	// Status is the HTTP status of a server that refused the upgrade, else 0.
	Status int
	Err    error
}

func (e *DialError) Error() string {
	if e.Timeout > 0 {
		return fmt.Sprintf("timed out connecting to exec-server websocket `%s` after %v", e.URL, e.Timeout)
	}
	return fmt.Sprintf("failed to connect to exec-server websocket `%s`: %v", e.URL, e.Err)
}

func (e *DialError) Unwrap() error { return e.Err }

// Retryable reports that another attempt may succeed.
func (e *DialError) Retryable() bool { return true }

// DialOptions are options of a new websocket.
type DialOptions struct {
	Options
	Header  http.Header
	TLS     *tls.Config   // for wss; NextProtos is ignored; nil: the system's authorities are trusted
	Timeout time.Duration // bounds the time until the websocket is open
	Buffer  int           // size of received messages, in bytes
	// Connect makes the underlying connection, and ends with its context; nil: a net.Dialer
	// is used.
	Connect func(ctx context.Context, network, address string) (net.Conn, error)
	// Refused returns the error for the answer of a server that refuses the upgrade. Refused
	// need not close the body.
	Refused func(*http.Response) error
}

// Dial connects to a websocket at a ws:// or wss:// URL within the timeout, through
// the proxy that the environment names, or through the Unix socket of a
// unix:///path URL. The error is a *DialError, or ctx's.
func Dial(ctx context.Context, address string, o DialOptions) (*Conn, error) {
	bound, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	// The library uses the context while it connects, but not while it waits for
	// the server's answer.
	attached := func() bool { return true }
	opening := &openingConn{left: maxOpening}
	connect := o.Connect
	if connect == nil {
		connect = new(net.Dialer).DialContext
	}
	dialer := gorilla.Dialer{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: withoutHTTP2(o.TLS), ReadBufferSize: o.Buffer,
		WriteBufferSize: unusedBuffer,
		NetDialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := connect(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			attached = context.AfterFunc(bound, func() { _ = conn.Close() })
			opening.Conn = conn
			return opening, nil
		},
	}
	target := address
	if path, ok := SocketPath(address); ok {
		dial := dialer.NetDialContext
		target, dialer.Proxy = "ws://localhost/", nil
		dialer.NetDialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, "unix", path) }
	}
	header := http.Header{"User-Agent": nil} // Codex CLI sends no User-Agent
	maps.Copy(header, o.Header)
	ws, res, err := dialer.DialContext(bound, target, header)
	if res != nil && err != nil {
		defer res.Body.Close()
	}
	if !attached() && err == nil {
		_ = ws.Close()
		err = context.Cause(bound)
	}
	if err == nil {
		opening.left = math.MaxInt64
		return newConn(ws, true, o.Options), nil
	}
	e := &DialError{URL: PublicURL(address), Err: err}
	var network net.Error
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case bound.Err() != nil, errors.As(err, &network) && network.Timeout():
		e.Timeout = o.Timeout
	case res != nil:
		e.Status, e.Err = res.StatusCode, o.Refused(res)
	case !isPublic(err):
		e.Err = errAnswer
	}
	return nil, e
}

// withoutHTTP2 returns a configuration that offers only HTTP/1.1, because only an HTTP/1.1
// connection can be upgraded to a websocket. A configuration that net/http has used would
// prefer HTTP/2.
func withoutHTTP2(config *tls.Config) *tls.Config {
	if config = config.Clone(); config != nil {
		config.NextProtos = []string{"http/1.1"}
	}
	return config
}

// unusedBuffer is the size of the library's buffer for writing messages, which is not used
// here. 0 would mean the library's default.
const unusedBuffer = 1

var (
	errAnswer  = errors.New("the answer does not come from a websocket server")
	errOpening = fmt.Errorf("the answer is longer than %d bytes", maxOpening)
)

// isPublic reports whether the text of an error contains no part of the server's answer. An
// error about parsing the answer contains the answer, which may contain the query of the URL
// and credentials in it.
func isPublic(err error) bool {
	var parsing *url.Error
	if errors.As(err, &parsing) {
		return false
	}
	var network net.Error
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &network) || errors.As(err, &certificate) || errors.As(err, &record) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errOpening)
}

// openingConn is a connection from which at most left bytes can be read, because the library
// does not limit the answer to an upgrade. left must only be changed while no goroutine reads.
type openingConn struct {
	net.Conn
	left int64
}

func (c *openingConn) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, errOpening
	}
	n, err := c.Conn.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	return n, err
}

// CloseWrite closes the sending side, if the connection supports that.
func (c *openingConn) CloseWrite() error { return closeWrite(c.Conn) }

// closeWrite closes the sending side of a connection. It returns errors.ErrUnsupported if the
// connection cannot do that.
func closeWrite(conn net.Conn) error {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// SocketPath returns the path of the Unix socket that a unix:///path URL names, and
// whether it is such a URL.
func SocketPath(address string) (path string, ok bool) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "unix" || u.Host != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !strings.HasPrefix(u.Path, "/") {
		return "", false
	}
	return u.Path, true
}

// PublicURL returns a URL without user, password, query and fragment, which may be
// secret. The text need not be a valid URL.
func PublicURL(text string) string {
	text, _, _ = strings.Cut(text, "?")
	text, _, _ = strings.Cut(text, "#")
	start := 0
	if i := strings.Index(text, "://"); i >= 0 {
		start = i + len("://")
	}
	host, _, _ := strings.Cut(text[start:], "/")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		text = text[:start] + "…" + text[start+at:]
	}
	return text
}
