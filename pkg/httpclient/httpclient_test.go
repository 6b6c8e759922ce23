package httpclient_test

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/pkg/httpclient"
)

// environment is a getenv.
type environment map[string]string

func (e environment) get(name string) string { return e[name] }

func TestCertificateAuthorities(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Accept-Encoding"))
	}))
	defer server.Close()
	dir := t.TempDir()
	bundle, empty := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "empty.pem")
	for path, text := range map[string][]byte{bundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), empty: nil} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		env  environment
		want string // in the error of New or of the request
	}{
		"CODEX_CA_CERTIFICATE":            {environment{"CODEX_CA_CERTIFICATE": bundle}, ""},
		"SSL_CERT_FILE":                   {environment{"SSL_CERT_FILE": bundle}, ""},
		"the first counts":                {environment{"CODEX_CA_CERTIFICATE": bundle, "SSL_CERT_FILE": empty}, ""},
		"neither":                         {environment{}, "certificate"},
		"a file without a certificate":    {environment{"SSL_CERT_FILE": empty}, "SSL_CERT_FILE: " + empty + " has no PEM certificate"},
		"a file that is not there":        {environment{"CODEX_CA_CERTIFICATE": dir + "/no"}, "CODEX_CA_CERTIFICATE: open " + dir + "/no"},
		"a file that is never at its end": {environment{"CODEX_CA_CERTIFICATE": "/dev/zero"}, "is larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			transport, err := httpclient.New(tt.env.get)
			if err == nil {
				defer transport.CloseIdleConnections()
				var resp *http.Response
				resp, err = (&http.Client{Transport: transport}).Get(server.URL)
				if err == nil {
					offered, _ := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					if len(offered) > 0 {
						t.Errorf("compression is offered: %s", offered)
					}
				}
			}
			if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestProxy(t *testing.T) {
	transport, err := httpclient.New(environment{"HTTPS_PROXY": "http://secure.test:1", "http_proxy": "http://plain.test:2", "NO_PROXY": "near.test"}.get)
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]string{
		"https://far.test":  "http://secure.test:1",
		"http://far.test":   "http://plain.test:2",
		"https://near.test": "",
		"http://127.0.0.1":  "",
	} {
		r := httptest.NewRequest("GET", target, nil)
		u, err := transport.Proxy(r)
		got := ""
		if u != nil {
			got = u.String()
		}
		if err != nil || got != want {
			t.Errorf("%s goes through %q, %v", target, got, err)
		}
	}
}
