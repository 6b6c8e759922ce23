package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// DialError says that no connection could be made. It is worth another try.
type DialError struct {
	// URL is the server's, without what may be secret in it.
	URL string
	// Timeout is how long it was tried if that was the reason, else 0.
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

// DialOptions say how a websocket is made.
type DialOptions struct {
	Header http.Header
	TLS    *tls.Config // of wss; nil: the system's authorities are trusted
	Limit  time.Duration
	Buffer int // of each direction, in bytes
	// Refused makes an error of the answer with which a server refuses the
	// upgrade. It need not close the body.
	Refused func(*http.Response) error
}

// Dial makes a websocket at a ws:// or wss:// URL within the limit, through
// the proxy that the environment names. The error is a *DialError, or ctx's.
func Dial(ctx context.Context, address string, o DialOptions) (*websocket.Conn, error) {
	bound, cancel := context.WithTimeout(ctx, o.Limit)
	defer cancel()
	// The library heeds the end of a context while it connects, but not while
	// it waits for the server's answer.
	attached := func() bool { return true }
	dialer := websocket.Dialer{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: o.TLS, ReadBufferSize: o.Buffer, WriteBufferSize: o.Buffer,
		NetDialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err == nil {
				attached = context.AfterFunc(bound, func() { _ = conn.Close() })
			}
			return conn, err
		},
	}
	ws, res, err := dialer.DialContext(bound, address, o.Header)
	if res != nil && err != nil {
		defer res.Body.Close()
	}
	if !attached() && err == nil {
		_ = ws.Close()
		err = context.Cause(bound)
	}
	if err == nil {
		return ws, nil
	}
	e := &DialError{URL: PublicURL(address), Err: err}
	var network net.Error
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case bound.Err() != nil, errors.As(err, &network) && network.Timeout():
		e.Timeout = o.Limit
	case res != nil:
		e.Status, e.Err = res.StatusCode, o.Refused(res)
	}
	return nil, e
}

// PublicURL is a URL without what may be secret in it: neither user nor query.
func PublicURL(text string) string {
	text, _, _ = strings.Cut(text, "?")
	text, _, _ = strings.Cut(text, "#")
	if u, err := url.Parse(text); err == nil && u.User != nil {
		u.User = url.User("…")
		return u.String()
	}
	return text
}
