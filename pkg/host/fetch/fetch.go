// Package fetch makes HTTP requests for a client (docs/spec/wire.md §6). It sends
// them unchanged and retries nothing. It follows redirects, decodes bodies in gzip and zstd,
// and uses the proxies that the environment names.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"codex.internal/pkg/host/contentcoding"
	"codex.internal/pkg/host/peercred"
)

const (
	// MaxBuffered is the largest body that ReadAll returns, in bytes. The body
	// is held in memory and sent in one message.
	MaxBuffered = 64 << 20
	// maxRedirects is how many redirects are followed.
	maxRedirects = 10
	// readStep is how many bytes ReadAll allocates at a time.
	readStep = 1 << 20
	// maxHeaderBytes bounds the head of a response.
	maxHeaderBytes = 1 << 20
	// dialTime bounds how long a connection attempt may take, and idleTime how long an unused
	// connection is kept.
	dialTime = 30 * time.Second
	idleTime = 90 * time.Second
)

// InvalidError is the error of a request that is not a valid HTTP request.
type InvalidError struct{ text string }

func (e *InvalidError) Error() string { return e.text }

func invalidf(format string, args ...any) error { return &InvalidError{fmt.Sprintf(format, args...)} }

// Header is one header line. If EnvVar is not nil, it names an environment variable of the server,
// whose value is appended to Value in a request.
type Header struct {
	Name, Value string
	EnvVar      *string
}

// Request is an HTTP request.
type Request struct {
	Method, URL string
	Headers     []Header
	Body        []byte
	// Timeout, if HasTimeout is set, limits the request including its body.
	Timeout       time.Duration
	HasTimeout    bool
	StopRedirects bool
}

// Response is the head of an answer, with header names in lower case, and its
// body. The caller closes the body.
type Response struct {
	Status  int
	Headers []Header
	Body    io.ReadCloser
	// DecoderMemory is the most memory that the decoder of Body allocates until Body is closed,
	// in bytes; 0: Body is not decoded.
	DecoderMemory int
	length        int64 // of Body, in bytes; -1: unknown
}

// Client makes requests. Its methods may be called from any goroutine.
type Client struct {
	transport func() *http.Transport // created for the first request
}

// NewClient returns a client with its own connections.
func NewClient() *Client { return &Client{sync.OnceValue(newTransport)} }

func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	// A client of the exec-server must not reach a local server of this user that needs no token:
	// see peercred.Carried.
	t.DialContext = (&net.Dialer{Timeout: dialTime, Control: peercred.Carried}).DialContext
	t.DisableCompression = true
	t.IdleConnTimeout = idleTime
	t.TLSHandshakeTimeout = dialTime
	t.MaxResponseHeaderBytes = maxHeaderBytes
	return t
}

// Close drops idle connections.
func (c *Client) Close() { c.transport().CloseIdleConnections() }

// Do makes a request. The error is an *InvalidError if the request is invalid; otherwise it is the
// failure of the request. ctx also applies to the body.
func (c *Client) Do(ctx context.Context, r Request) (*Response, error) {
	target, err := r.check()
	if err != nil {
		return nil, err
	}
	headers, secret, err := r.headers()
	if err != nil {
		return nil, err
	}
	cancel := context.CancelFunc(func() {})
	if r.HasTimeout {
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
	}
	var body io.Reader
	if len(r.Body) > 0 {
		body = strings.NewReader(string(r.Body)) // a copy: it may be sent again
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, target.String(), body)
	if err != nil {
		cancel()
		return nil, invalidf("http/request url is invalid: %v", reason(err))
	}
	req.Header = headers
	if host := headers.Get("Host"); host != "" {
		req.Host = host
	}
	client := &http.Client{Transport: c.transport(), CheckRedirect: func(next *http.Request, via []*http.Request) error {
		return r.redirect(next, via, secret)
	}}
	res, err := client.Do(req)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("http/request failed: %w", reason(err))
	}
	memory := contentcoding.Decode(res)
	return &Response{
		Status: res.StatusCode, Headers: answered(res.Header),
		Body: &timedBody{res.Body, cancel}, DecoderMemory: memory, length: res.ContentLength,
	}, nil
}

// timedBody stops the timer of the request when the body ends.
type timedBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *timedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// check validates method, URL and scheme, in the order of Codex CLI.
func (r *Request) check() (*url.URL, error) {
	if !validToken(r.Method) {
		return nil, invalidf("http/request method is invalid: %q is not an HTTP token", r.Method)
	}
	target, err := url.Parse(r.URL)
	switch {
	case err != nil:
		return nil, invalidf("http/request url is invalid: %v", reason(err))
	case target.Scheme == "":
		return nil, invalidf("http/request url is invalid: relative URL without a base")
	case target.Scheme != "http" && target.Scheme != "https":
		return nil, invalidf("http/request only supports http and https URLs, got %s", target.Scheme)
	case target.Hostname() == "":
		return nil, invalidf("http/request url is invalid: empty host")
	}
	return target, nil
}

// validToken reports whether s is a token of HTTP (RFC 9110, section 5.6.2).
func validToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

// validValue reports whether s has no control characters except tabs.
func validValue(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// headers returns the headers of the request, and the names of those headers whose values came from
// variables.
func (r *Request) headers() (headers http.Header, secret []string, err error) {
	// An empty header keeps net/http from adding its own.
	headers = http.Header{"User-Agent": {""}}
	given := false
	for _, h := range r.Headers {
		if !validToken(h.Name) {
			return nil, nil, invalidf("http/request header name is invalid: %q is not an HTTP token", h.Name)
		}
		value := h.Value
		if h.EnvVar != nil {
			text, err := variable(h.Name, *h.EnvVar)
			if err != nil {
				return nil, nil, err
			}
			value += text
			secret = append(secret, http.CanonicalHeaderKey(h.Name))
		}
		if !validValue(value) {
			return nil, nil, invalidf("http/request header value is invalid for %s: it holds control characters", h.Name)
		}
		if !given && strings.EqualFold(h.Name, "User-Agent") {
			given = true
			headers.Del(h.Name)
		}
		headers.Add(h.Name, value)
	}
	if headers.Values("Accept-Encoding") == nil {
		headers.Set("Accept-Encoding", contentcoding.Accepted)
	}
	return headers, secret, nil
}

// credentials are the variables with credentials of this program and of programs that run next to
// it. A client must not be able to send them to a URL.
var credentials = []string{
	"CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN", "OPENAI_FEDERATION_RULE_ID", "OPENAI_IDENTITY_TOKEN_FILE",
	"OPENAI_WORKLOAD_IDENTITY_CONTEXT", "OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "CODEX_CONNECTORS_TOKEN",
	"CODEX_GUARDIAN_DECISIONS_API_KEY",
	"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE",
	"GOOGLE_APPLICATION_CREDENTIALS",
	// These are this project's own variables.
	"CODEX_RENDEZVOUS_TOKEN", "CODEX_RENDEZVOUS_NATS_URL", "CODEX_EXEC_SERVER_CONNECTION_TOKEN",
	"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
}

// variable returns the value of the variable that a header names.
func variable(header, name string) (string, error) {
	if slices.ContainsFunc(credentials, func(other string) bool { return strings.EqualFold(other, name) }) {
		return "", invalidf("http/request header %s cannot use executor environment variable %s", header, name)
	}
	text, ok := os.LookupEnv(name)
	switch {
	case !ok:
		return "", invalidf("http/request header %s requires executor environment variable %s", header, name)
	case text == "":
		return "", invalidf("http/request header %s requires a non-empty executor environment variable %s", header, name)
	default:
		return text, nil
	}
}

// bound are the headers that are never sent to another origin. They always contain credentials,
// except for Referer, which the library adds and which contains the URL.
var bound = []string{"Authorization", "Cookie", "Cookie2", "Proxy-Authorization", "Referer"}

// redirect decides whether to follow a redirect, and with which headers. Credentials and secrets
// are sent only to the origin that the client has named, and not to an origin that a server
// redirects to. The library itself compares host names only, and would send credentials to
// subdomains and other ports.
func (r *Request) redirect(next *http.Request, via []*http.Request, secret []string) error {
	if r.StopRedirects {
		return http.ErrUseLastResponse
	}
	if len(via) > maxRedirects {
		return fmt.Errorf("too many redirects: at most %d are followed", maxRedirects)
	}
	home := originOf(via[0].URL)
	away := func(other *http.Request) bool { return originOf(other.URL) != home }
	if away(next) || slices.ContainsFunc(via, away) {
		// This is so even if the redirect leads back to the first origin, because another server
		// chose the URL.
		for _, name := range slices.Concat(bound, secret) {
			next.Header.Del(name)
		}
		next.Host = ""
	}
	return nil
}

// originOf returns scheme, host and port of a URL.
func originOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Scheme) + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// answered returns the headers of an answer, sorted by name. It omits values with control
// characters or non-ASCII bytes.
func answered(in http.Header) []Header {
	var out []Header
	for name, values := range in {
		for _, value := range values {
			if !strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c > '~' }) {
				out = append(out, Header{Name: strings.ToLower(name), Value: value})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Header) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// reason returns an error without the URL, which may contain credentials.
func reason(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("operation timed out")
	}
	return err
}

// ReadAll reads the whole body. It calls reserve before it allocates memory, and returns reserve's
// error. If the body has more than MaxBuffered bytes, it returns an error.
func (r *Response) ReadAll(reserve func(bytes int) error) ([]byte, error) {
	if r.length > MaxBuffered {
		return nil, tooLarge()
	}
	var data []byte
	for {
		if len(data) == cap(data) {
			more := min(max(readStep, int(r.length)+1), MaxBuffered+1) - len(data)
			if more <= 0 {
				more = min(len(data), MaxBuffered+1-len(data))
			}
			if more <= 0 {
				return nil, tooLarge()
			}
			if err := reserve(more); err != nil {
				return nil, err
			}
			data = slices.Grow(data, more)
		}
		n, err := r.Body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case len(data) > MaxBuffered:
			return nil, tooLarge()
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, fmt.Errorf("failed to read http/request response body: %w", reason(err))
		}
	}
}

func tooLarge() error {
	return fmt.Errorf("http/request failed: the response body exceeds %d bytes; ask for it with streamResponse", MaxBuffered)
}
