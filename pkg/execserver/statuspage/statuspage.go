package statuspage

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/internal/webpage"
)

// Source is the server whose status the page shows.
type Source interface {
	// Report returns what a client may see.
	Report(ctx context.Context, grant *wsauth.Grant) Report
	// Targets returns the processes that a client may end.
	Targets(grant *wsauth.Grant) []Target
}

// Target is a process that the page can end.
type Target struct {
	Key           Key
	Name, Command string
	Seen          observe.EndRequest
	End           func(ctx context.Context) error
}

// Options are the options of a page.
type Options struct {
	Source Source
	Events *observe.Events
	Log    *slog.Logger
	// AnyHost permits any host name in requests, because clients present a token or a
	// certificate.
	AnyHost bool
	// Authenticate returns what a client may do, or the reason to refuse it. Refuse answers a
	// refused client.
	Authenticate func(r *http.Request) (wsauth.Grant, *observe.Refused)
	Refuse       func(w http.ResponseWriter, r *http.Request, why *observe.Refused)
}

// Page is the status page of a server.
type Page struct {
	Options
	secret secret
}

// New returns the page.
func New(o Options) *Page { return &Page{o, newSecret()} }

// ServeHTTP implements http.Handler. It shows a client its sessions and processes
// (docs/spec/wire.md §1.2), as a page or, if requested, as JSON. It also ends processes. A
// browser sends a token as the password.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost && !isOwnOrigin(r):
		http.Error(w, "a POST must come from the form of this page", http.StatusForbidden)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost:
		w.Header().Set("Allow", "GET, HEAD, POST")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case !p.AnyHost && !IsLiteralHost(r.Host):
		http.Error(w, "use an IP address or localhost in the URL: a web page could have made another name", http.StatusForbidden)
		return
	}
	if _, password, ok := r.BasicAuth(); ok {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+password)
	}
	grant, refused := p.Authenticate(r)
	if refused != nil {
		if refused.Status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Basic realm="codex exec-server: any user, a token as password"`)
		}
		p.Refuse(w, r, refused)
		return
	}
	if r.Method == http.MethodPost {
		p.serveEnd(w, r, &grant)
		return
	}
	if ref := r.URL.Query().Get(endField); ref != "" {
		p.serveConfirmation(w, &grant, ref)
		return
	}
	report := p.Source.Report(r.Context(), &grant)
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(report.json()) // a client that has disconnected needs no answer
		return
	}
	webpage.SetHeaders(w.Header(), policy)
	_, _ = w.Write(p.page(&report, time.Now()))
}

// IsLiteralHost reports whether a host is an address or localhost. Otherwise a web page whose
// name resolves to this machine could read the page with the rights of the browser's user.
func IsLiteralHost(host string) bool {
	if name, _, ok := strings.Cut(host, ":"); ok && name == "localhost" || host == "localhost" {
		return true
	}
	if _, err := netip.ParseAddrPort(host); err == nil {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}
