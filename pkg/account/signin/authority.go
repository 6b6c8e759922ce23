package signin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"codex.internal/pkg/account/httpclient"
	"codex.internal/pkg/wire/secret"
)

// These are the identity service, and the names of this program there.
const (
	defaultIssuer     = "https://auth.openai.com"
	defaultClientID   = "app_EMoamEEZ73f0CkXaXp7hrann"
	defaultOriginator = "codex_cli_rs"
)

// These variables change the identity service.
const (
	variableRefreshURL = "CODEX_REFRESH_TOKEN_URL_OVERRIDE"
	variableRevokeURL  = "CODEX_REVOKE_TOKEN_URL_OVERRIDE"
	variableClientID   = "CODEX_APP_SERVER_LOGIN_CLIENT_ID"
	variableAuthAPI    = "CODEX_AUTHAPI_BASE_URL"
	variableOriginator = "CODEX_INTERNAL_ORIGINATOR_OVERRIDE"
)

// AuthorityOptions are the options of an Authority.
type AuthorityOptions struct {
	// Getenv reads the environment.
	Getenv func(name string) string
	// Transport sends the requests.
	Transport http.RoundTripper
	// Version is the version of this program.
	Version string
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Authority makes requests to the identity service. It is safe for concurrent use and need not be
// closed.
type Authority struct {
	getenv    func(string) string
	http      *http.Client
	userAgent string
	now       func() time.Time
}

// NewAuthority returns an Authority.
func NewAuthority(o AuthorityOptions) *Authority {
	a := &Authority{getenv: o.Getenv, now: o.Now, http: &http.Client{
		Transport: o.Transport,
		// Redirects are not followed: request bodies contain tokens, which only this host must get.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if a.now == nil {
		a.now = time.Now
	}
	a.userAgent = userAgent(a.originator(), o.Version, o.Getenv)
	return a
}

// env returns a variable, or a default if it is empty.
func (a *Authority) env(name, otherwise string) string {
	if v := strings.TrimSpace(a.getenv(name)); v != "" {
		return v
	}
	return otherwise
}

func (a *Authority) originator() string { return a.env(variableOriginator, defaultOriginator) }
func (a *Authority) clientID() string   { return a.env(variableClientID, defaultClientID) }
func (a *Authority) refreshURL() string {
	return a.env(variableRefreshURL, defaultIssuer+"/oauth/token")
}
func (a *Authority) authAPI() string {
	return strings.TrimRight(a.env(variableAuthAPI, productionAuthAPI), "/")
}

// revokeURL returns the URL for revoking tokens. Unless configured otherwise, it is next to the URL
// for refreshing them.
func (a *Authority) revokeURL() string {
	if v := a.env(variableRevokeURL, ""); v != "" {
		return v
	}
	u, err := url.Parse(a.env(variableRefreshURL, ""))
	if err != nil || u.Host == "" {
		return defaultIssuer + "/oauth/revoke"
	}
	u.Path, u.RawPath, u.RawQuery, u.Fragment = "/oauth/revoke", "", "", ""
	return u.String()
}

// request is a request to the identity service.
type request struct {
	secret.Unprinted
	method, url string
	timeout     time.Duration
	contentType string // empty: no body
	body        []byte
	bearer      Secret // empty: none
	anonymous   bool   // without the name of this program
}

// answer is an answer of the identity service.
type answer struct {
	secret.Unprinted
	status int
	body   []byte
}

func (a answer) ok() bool { return a.status/100 == 2 }

func (a answer) statusText() string { return httpclient.StatusText(a.status) }

// statusError returns the error for an answer whose status is not a success.
func (a answer) statusError(url string) error {
	kind := ""
	switch a.status / 100 {
	case 4:
		kind = "client error "
	case 5:
		kind = "server error "
	}
	return fmt.Errorf("HTTP status %s(%s) for url (%s)", kind, a.statusText(), url)
}

// text returns the body for people, truncated to a number of characters.
func (a answer) text() string {
	text := []rune(httpclient.PlainText(strings.TrimSpace(string(a.body))))
	if len(text) > maxPreview {
		return string(text[:maxPreview]) + "..."
	}
	return string(text)
}

// do sends a request. An error means that there was no complete answer.
func (a *Authority) do(ctx context.Context, r request) (answer, error) {
	if r.timeout == 0 {
		r.timeout = requestTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, withoutQuery(err)
	}
	req.Header.Set("Accept", "*/*")
	req.Header["User-Agent"] = nil
	if !r.anonymous {
		req.Header.Set("Originator", a.originator())
		req.Header.Set("User-Agent", a.userAgent)
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if r.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+r.bearer.Reveal())
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return answer{}, withoutQuery(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return answer{}, fmt.Errorf("read the answer of %s: %w", cutQuery(req.URL.Redacted()), err)
	}
	if len(body) > maxAnswer {
		return answer{}, fmt.Errorf("the answer of %s is longer than %d bytes", cutQuery(req.URL.Redacted()), maxAnswer)
	}
	return answer{status: resp.StatusCode, body: body}, nil
}

// withoutQuery removes the query, which may be secret, from the URL in an error.
func withoutQuery(err error) error {
	var e *url.Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.Op == "parse":
		return fmt.Errorf("the URL of the identity service: %w", e.Err)
	default:
		return &url.Error{Op: e.Op, URL: cutQuery(e.URL), Err: e.Err}
	}
}

// cutQuery returns a URL without its query.
func cutQuery(text string) string {
	text, _, _ = strings.Cut(text, "?")
	text, _, _ = strings.Cut(text, "#")
	return text
}

const (
	contentJSON = "application/json"
	contentForm = "application/x-www-form-urlencoded"
)

// postJSON posts a value as JSON.
func (a *Authority) postJSON(ctx context.Context, r request, v any) (answer, error) {
	r.method, r.contentType, r.body = http.MethodPost, contentJSON, encode(v)
	return a.do(ctx, r)
}

// field is a field of a form. Forms are sent in a fixed order, which url.Values does not preserve.
type field struct {
	secret.Unprinted
	name, value string
}

// param makes a field of a form or of a query.
func param(name, value string) field { return field{name: name, value: value} }

// postForm posts a form.
func (a *Authority) postForm(ctx context.Context, r request, fields ...field) (answer, error) {
	r.method, r.contentType, r.body = http.MethodPost, contentForm, []byte(encodeFields(fields))
	return a.do(ctx, r)
}

// encodeFields encodes a form or a query; a blank is %20.
func encodeFields(fields []field) string {
	var b strings.Builder
	for i, f := range fields {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(percent(f.name) + "=" + percent(f.value))
	}
	return b.String()
}

func percent(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// failure is the description in an unsuccessful answer, in any of the formats that the services
// use.
type failure struct {
	code, message string
}

// failure decodes the description of a failure. Its members may be empty.
func (a answer) failure() failure {
	var doc struct {
		Error       json.RawMessage `json:"error"`
		Description string          `json:"error_description"`
		Code        string          `json:"code"`
	}
	if json.Unmarshal(a.body, &doc) != nil {
		return failure{}
	}
	f := failure{code: doc.Code, message: doc.Description}
	var text string
	var object struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	switch {
	case json.Unmarshal(doc.Error, &text) == nil && text != "":
		f.code = text
	case json.Unmarshal(doc.Error, &object) == nil:
		if object.Code != "" {
			f.code = object.Code
		}
		if f.message == "" {
			f.message = object.Message
		}
	}
	return f
}

// detail returns the most useful part of a failure: its message, its code, its text, or
// a note that it has none.
func (a answer) detail() string {
	f := a.failure()
	for _, text := range []string{httpclient.PlainText(f.message), httpclient.PlainText(f.code), a.text()} {
		if text != "" {
			return text
		}
	}
	return "unknown error"
}
