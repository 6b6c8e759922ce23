// Package fetch makes HTTP requests on behalf of a client (section 6), as
// they are given: nothing is added, decoded or retried, except that redirects
// are followed and the proxy variables of the environment are honoured.
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
	"time"
)

const (
	// MaxBuffered is the largest body that ReadAll returns. What is larger
	// would have to be held and sent in one message.
	MaxBuffered = 64 << 20
	// maxRedirects is how many redirects are followed.
	maxRedirects = 10
	// readStep is how much memory ReadAll asks for at a time.
	readStep = 1 << 20
	// maxHeaderBytes bounds the head of a response.
	maxHeaderBytes = 1 << 20
	// dialTime bounds how long a server may take to accept a connection, and
	// idleTime how long an unused one is kept.
	dialTime = 30 * time.Second
	idleTime = 90 * time.Second
)

// InvalidError says that a request cannot be made as it is given.
type InvalidError struct{ text string }

func (e *InvalidError) Error() string { return e.text }

func invalidf(format string, args ...any) error { return &InvalidError{fmt.Sprintf(format, args...)} }

// Header is one header line. In a request the value of the environment
// variable EnvVar, if that is not empty, is appended to Value.
type Header struct{ Name, Value, EnvVar string }

// Request is what to ask for.
type Request struct {
	Method, URL string
	Headers     []Header
	Body        []byte
	// Timeout, when HasTimeout is set, covers everything to the end of the
	// body.
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
	length  int64
}

// Client makes requests. Its methods may be called from any goroutine.
type Client struct{ transport *http.Transport }

// NewClient returns a client with connections of its own.
func NewClient() *Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableCompression = true
	t.IdleConnTimeout = idleTime
	t.TLSHandshakeTimeout = dialTime
	t.MaxResponseHeaderBytes = maxHeaderBytes
	return &Client{t}
}

// Close drops idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Do makes a request. The error is an *InvalidError when there was nothing to
// ask for, else it says why no answer came. ctx covers the body too.
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
	client := &http.Client{Transport: c.transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		return r.redirect(next, via, secret)
	}}
	res, err := client.Do(req)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("http/request failed: %w", reason(err))
	}
	return &Response{
		Status: res.StatusCode, Headers: answered(res.Header), length: res.ContentLength,
		Body: &timedBody{res.Body, cancel},
	}, nil
}

// timedBody ends the request's timeout with the body.
type timedBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *timedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// check decides in the order of the reference: method, URL, scheme.
func (r *Request) check() (*url.URL, error) {
	if !validToken(r.Method) {
		return nil, invalidf("http/request method is invalid: %q is no HTTP token", r.Method)
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

// validValue reports whether s has no control characters but tabs.
func validValue(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// headers returns the headers of the request, and the names of those whose
// values came from variables.
func (r *Request) headers() (headers http.Header, secret []string, err error) {
	// A header that is there but empty keeps the library from inventing one.
	headers = http.Header{"User-Agent": {""}}
	given := false
	for _, h := range r.Headers {
		if !validToken(h.Name) {
			return nil, nil, invalidf("http/request header name is invalid: %q is no HTTP token", h.Name)
		}
		value := h.Value
		if h.EnvVar != "" {
			text, err := variable(h)
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
	return headers, secret, nil
}

// credentials are the variables that the executor itself, or what runs beside
// it, signs in with. A client could otherwise have the executor send them to
// any URL.
var credentials = []string{
	"CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN", "OPENAI_FEDERATION_RULE_ID", "OPENAI_IDENTITY_TOKEN_FILE",
	"OPENAI_WORKLOAD_IDENTITY_CONTEXT", "OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "CODEX_CONNECTORS_TOKEN",
	"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE",
	"GOOGLE_APPLICATION_CREDENTIALS",
	// This project's own.
	"CODEX_RENDEZVOUS_TOKEN", "CODEX_RENDEZVOUS_NATS_URL", "CODEX_EXEC_SERVER_CONNECTION_TOKEN",
}

// variable returns the value of the variable that a header names.
func variable(h Header) (string, error) {
	if slices.ContainsFunc(credentials, func(name string) bool { return strings.EqualFold(name, h.EnvVar) }) {
		return "", invalidf("http/request header %s cannot use executor environment variable %s", h.Name, h.EnvVar)
	}
	text, ok := os.LookupEnv(h.EnvVar)
	switch {
	case !ok:
		return "", invalidf("http/request header %s requires executor environment variable %s", h.Name, h.EnvVar)
	case text == "":
		return "", invalidf("http/request header %s requires a non-empty executor environment variable %s", h.Name, h.EnvVar)
	default:
		return text, nil
	}
}

// bound are the headers that hold credentials by their nature, and Referer,
// which the library adds and which holds the URL.
var bound = []string{"Authorization", "Cookie", "Cookie2", "Proxy-Authorization", "Referer"}

// redirect decides whether a redirect is followed, and with which headers.
// Credentials and secrets are for the origin that the client has named: a server
// that redirects elsewhere must not choose who else gets them. The library
// compares host names alone, and takes subdomains and other ports for the same.
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
		// Also on the way back: it is somebody else who has named the URL.
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

// answered lists the headers of an answer, sorted by name. Values that are no
// text are left out.
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

// reason is an error without the URL, which may hold credentials.
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

// ReadAll reads the body whole. reserve is asked before memory is taken and
// can refuse it. A body over MaxBuffered is an error that says what to do.
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
