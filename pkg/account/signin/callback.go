package signin

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"codex.internal/pkg/wire/secret"
)

// callback is the local server to which the identity service redirects the browser. A sign-in
// attempt goes through these states, and never back:
//
//	waiting: for a request with the right state
//	busy:    the code of that request is being exchanged
//	stored:  signed in; the browser is loading the last page
//	ended:   successfully or not
//
// Requests may arrive at any time, from any program on this machine.
type callback struct {
	secret.Unprinted
	login  *Login
	server string          // its URL
	ctx    context.Context // of the attempt: it does not end with a browser's request
	grant  grant           // all but the code
	state  Secret
	// abandon ends ctx. It is called when the attempt ends, so that no browser can sign in
	// afterwards.
	abandon context.CancelFunc

	mu     sync.Mutex
	taken  bool          // no more waiting
	stored chan struct{} // is closed when it is
	ended  chan struct{} // is closed when it is
	err    error         // the reason for its end; read after that
}

// callbackError is the reason why the browser's request does not sign the user in.
type callbackError struct {
	notice string // an additional line for the user, as in Codex CLI
	err    error
}

func (e *callbackError) Error() string { return e.err.Error() }

// Unwrap returns the reason.
func (e *callbackError) Unwrap() error { return e.err }

// noticed is a callbackError whose notice ends with the text of another error.
func noticed(what string, reason, err error) error {
	return &callbackError{what + ": " + reason.Error(), err}
}

const (
	noEntitlement = "Codex is not enabled for your workspace. Contact your workspace administrator to request access to Codex."
	missingCode   = "Missing authorization code. Sign-in could not be completed."
	cancelled     = "Login cancelled"
)

func newCallback(ctx context.Context, l *Login, server string) *callback {
	ctx, abandon := context.WithCancel(ctx)
	return &callback{
		login: l, server: server, ctx: ctx, abandon: abandon, state: randomText(stateBytes), stored: make(chan struct{}), ended: make(chan struct{}),
		grant: grant{issuer: defaultIssuer, clientID: l.Authority.clientID(), redirectURI: server + "/auth/callback", verifier: randomText(verifierBytes)},
	}
}

// end ends the attempt, unless it has ended.
func (c *callback) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(err)
}

// cancel ends the attempt, unless it has already signed the user in.
func (c *callback) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isStored() {
		c.endLocked(errors.New(cancelled))
	}
}

// endLocked is end for a caller that holds mu.
func (c *callback) endLocked(err error) {
	select {
	case <-c.ended:
	default:
		c.err = err
		close(c.ended)
		c.abandon()
	}
}

// store stores the credentials, unless the attempt has ended. It holds mu, so that an
// attempt that was reported as cancelled stores nothing.
func (c *callback) store(tokens Tokens, key Secret) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if err := c.login.save(tokens, key); err != nil {
		return err
	}
	close(c.stored)
	return nil
}

// take ends the state waiting, and reports whether this call was the first to do so.
func (c *callback) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.taken
	c.taken = true
	return first
}

// wait waits until the attempt to sign in has ended. It succeeds once the tokens are
// stored, even if the browser never requests the last page.
func (c *callback) wait(ctx context.Context) error {
	select {
	case <-c.ended:
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.stored:
	}
	t := time.NewTimer(lastPage)
	defer t.Stop()
	select {
	case <-c.ended:
	case <-t.C:
	case <-ctx.Done():
	}
	return nil
}

// ServeHTTP answers the browser, or another sign-in attempt that needs the port. It refuses
// requests that a web page has made: see foreign.
func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if c.foreign(r) {
		answerText(w, http.StatusForbidden, "Forbidden")
		return
	}
	switch {
	case r.Method != http.MethodGet:
		answerText(w, http.StatusNotFound, "Not Found")
	case r.URL.Path == "/auth/callback":
		c.back(w, r.URL.Query())
	case r.URL.Path == "/success" && c.isStored():
		answerPage(w, "Signed in to Codex", "You can close this page.")
		c.end(nil)
	case r.URL.Path == "/cancel":
		answerText(w, http.StatusOK, cancelled)
		c.cancel()
	default:
		answerText(w, http.StatusNotFound, "Not Found")
	}
}

// foreign reports whether a web page has made a request. Any page that the user has open can make
// the browser send requests to this server, whose port is known. But a page cannot choose these
// headers:
//
//   - Host is this server's address. It is the name of the page's own site where
//     that name leads to this machine (DNS rebinding).
//   - Origin is absent, or, where the identity service sends the browser back,
//     null.
//   - Sec-Fetch-Site, -Mode and -Dest say what the browser is doing. It comes
//     back from the identity service by opening the page in a tab. /cancel is for
//     other programs, and for users who type it.
func (c *callback) foreign(r *http.Request) bool {
	_, port, _ := strings.Cut(strings.TrimPrefix(c.server, "http://"), ":")
	if r.Host != "localhost:"+port && r.Host != "127.0.0.1:"+port {
		return true
	}
	origins, site := r.Header.Values("Origin"), r.Header.Get("Sec-Fetch-Site")
	if r.URL.Path == "/cancel" {
		browser := r.Header.Get("Sec-Fetch-Mode")+r.Header.Get("Sec-Fetch-Dest")+r.Header.Get("Referer") != ""
		return len(origins) > 0 || site != "none" && (site != "" || browser)
	}
	mode, dest := r.Header.Get("Sec-Fetch-Mode"), r.Header.Get("Sec-Fetch-Dest")
	return slices.ContainsFunc(origins, func(origin string) bool { return origin != "null" && origin != c.server }) ||
		mode != "" && mode != "navigate" || dest != "" && dest != "document" ||
		site != "" && mode == ""
}

func (c *callback) isStored() bool {
	select {
	case <-c.stored:
		return true
	default:
		return false
	}
}

// back handles the redirected request of the browser.
func (c *callback) back(w http.ResponseWriter, query url.Values) {
	state := query.Get("state")
	if subtle.ConstantTimeCompare([]byte(state), []byte(c.state.Reveal())) != 1 || !c.take() {
		answerText(w, http.StatusBadRequest, "State mismatch")
		return
	}
	err := c.finish(query)
	if err != nil {
		answerPage(w, "Sign-in to Codex failed", err.Error())
		c.end(err)
		return
	}
	w.Header().Set("Location", "/success?signed_in=true")
	w.WriteHeader(http.StatusFound)
}

// finish makes credentials from the browser's request, and stores them.
func (c *callback) finish(query url.Values) error {
	if err := refusal(query); err != nil {
		return err
	}
	g := c.grant
	if g.code = Secret(query.Get("code")); g.code == "" {
		//lint:ignore ST1005 Codex CLI's text
		return errors.New(missingCode)
	}
	tokens, err := c.login.Authority.exchange(c.ctx, g)
	if err != nil {
		//lint:ignore ST1005 Codex CLI's text
		return noticed("Token exchange error", err, fmt.Errorf("Token exchange failed: %w", err))
	}
	// The workspace is checked before an API key is created for an account that may not sign in.
	if err := c.login.checkWorkspace(tokens.Claims.AccountID); err != nil {
		return noticed("Workspace restriction error", err, err)
	}
	// Not every account gets an API key; signing in succeeds without one.
	key, _ := c.login.Authority.exchangeKey(c.ctx, g.issuer, g.clientID, tokens.IDToken)
	return c.store(tokens, key)
}

// refusal returns the identity service's message if it sends no code.
func refusal(query url.Values) error {
	code := query.Get("error")
	description := query.Get("error_description")
	switch {
	case code == "":
		return nil
	case code == "access_denied" && strings.Contains(strings.ToLower(description), "missing_codex_entitlement"):
		return refused(noEntitlement)
	case strings.TrimSpace(description) == "":
		description = code
	}
	return refused("Sign-in failed: " + strings.Map(onTerminal, description))
}

// refused returns the error for a message of the identity service that the browser has delivered.
func refused(text string) error {
	err := errors.New(text)
	return noticed("OAuth callback error", err, err)
}

// onTerminal replaces characters that control a terminal.
func onTerminal(r rune) rune {
	if !unicode.IsPrint(r) {
		return unicode.ReplacementChar
	}
	return r
}

func answerText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // the browser may have disconnected
}

// answerPage answers with the last page.
func answerPage(w http.ResponseWriter, title, text string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	title = html.EscapeString(title)
	_, _ = fmt.Fprintf(w, "<!DOCTYPE html>\n<html lang=\"en\"><head><title>%s</title></head><body><h1>%s</h1><p>%s</p></body></html>\n",
		title, title, html.EscapeString(text))
}
