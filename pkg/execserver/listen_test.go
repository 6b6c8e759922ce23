package execserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"codex.internal/pkg/sandbox/runner"
)

// TestCertifiedClients: the server accepts a verified certificate only on its own listener,
// where it has required it. The certificate's name is the principal.
func TestCertifiedClients(t *testing.T) {
	named := &x509.Certificate{Subject: pkix.Name{CommonName: "me", Organization: []string{"ours"}}}
	unnamed := &x509.Certificate{RawSubjectPublicKeyInfo: []byte("key")}
	own := context.WithValue(t.Context(), connKey{}, arrival{conn: &net.TCPConn{}})
	verified := func(cert *x509.Certificate) *tls.ConnectionState {
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}
	}
	for name, tt := range map[string]struct {
		ctx   context.Context
		state *tls.ConnectionState
		want  string // the principal; empty: refused
	}{
		"a name":                   {own, verified(named), "certificate of CN=me,O=ours"},
		"no name":                  {own, verified(unnamed), "certificate with the key 2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683"},
		"not verified":             {own, &tls.ConnectionState{PeerCertificates: []*x509.Certificate{named}}, ""},
		"no certificate":           {own, &tls.ConnectionState{}, ""},
		"no TLS":                   {own, nil, ""},
		"another program's server": {t.Context(), verified(named), ""},
	} {
		r := (&http.Request{TLS: tt.state}).WithContext(tt.ctx)
		if isCertified(r) != (tt.want != "") {
			t.Errorf("%s: got %v, want %v", name, isCertified(r), tt.want != "")
			continue
		}
		if tt.want == "" {
			continue
		}
		if grant, refused := new(Server).authenticate(r); refused != nil || grant.Principal != tt.want {
			t.Errorf("%s: got grant.Principal %q, refused %v; want refused nil, grant.Principal %q", name, grant.Principal, refused, tt.want)
		}
	}
}

// TestReadyNeedsASandbox: with RequireSandbox, a server whose backend does not work is not ready.
func TestReadyNeedsASandbox(t *testing.T) {
	for _, require := range []bool{false, true} {
		srv, err := New(Options{RequireSandbox: require, Sandbox: runner.Options{Launcher: filepath.Join(t.TempDir(), "missing")}})
		if err != nil {
			t.Fatal(err)
		}
		if srv.CheckSandbox() == nil {
			t.Error("a missing launcher confines commands")
		}
		for path, want := range map[string]int{"/readyz": map[bool]int{false: 200, true: 503}[require], "/livez": 200} {
			w := httptest.NewRecorder()
			srv.servePort(w, httptest.NewRequest(http.MethodGet, path, nil))
			if w.Code != want {
				t.Errorf("%s with RequireSandbox %v: got status %d, want %d", path, require, w.Code, want)
			}
		}
		if err := srv.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestReadyNeedsTheRelay: with RequireRelay, a server is ready while it is connected. The port of the metrics says so,
// because such a server has no other.
func TestReadyNeedsTheRelay(t *testing.T) {
	srv, err := New(Options{RequireRelay: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for _, tt := range []struct {
		when   string
		change func()
		want   int
	}{
		{"before it has connected", func() {}, http.StatusServiceUnavailable},
		{"connected", srv.Remote().Connected, http.StatusOK},
		{"when it has lost the connection", srv.Remote().Disconnected, http.StatusServiceUnavailable},
	} {
		tt.change()
		for path, want := range map[string]int{"/readyz": tt.want, "/livez": http.StatusOK, "/healthz": http.StatusOK, "/metrics": http.StatusOK, "/status": http.StatusNotFound} {
			w := httptest.NewRecorder()
			srv.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if w.Code != want {
				t.Errorf("%s, %s: got status %d, want %d", tt.when, path, w.Code, want)
			}
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/livez", nil)
	r.Header.Set("Origin", "http://x.test")
	w := httptest.NewRecorder()
	if srv.Metrics().ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("/livez for a web page: got status %d, want 403", w.Code)
	}
}
