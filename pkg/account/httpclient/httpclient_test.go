package httpclient_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/pkg/account/httpclient"
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
		want string // a part of the error, of New or of the request
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

// targetVariable makes the test binary print the proxies of URLs.
const targetVariable = "HTTPCLIENT_TEST_TARGETS"

func TestMain(m *testing.M) {
	targets := strings.Fields(os.Getenv(targetVariable))
	if len(targets) == 0 {
		os.Exit(m.Run())
	}
	transport, err := httpclient.New(os.Getenv)
	if err != nil {
		log.Fatal(err)
	}
	for _, target := range targets {
		u, err := transport.Proxy(httptest.NewRequest("GET", target, nil))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(u)
	}
}

// TestProxy uses one process per case, because net/http reads the environment only once.
func TestProxy(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const direct = "<nil>"
	for _, tt := range []struct {
		env    []string
		target string
		want   string
	}{
		{[]string{"HTTPS_PROXY=http://secure.test:1"}, "https://far.test", "http://secure.test:1"},
		{[]string{"HTTPS_PROXY=http://secure.test:1"}, "http://far.test", direct},
		{[]string{"http_proxy=http://plain.test:2"}, "http://far.test", "http://plain.test:2"},
		{[]string{"http_proxy=http://plain.test:2", "HTTP_PROXY=http://capital.test:3"}, "http://far.test", "http://capital.test:3"},
		{[]string{"HTTP_PROXY=http://plain.test:2", "REQUEST_METHOD=GET"}, "https://far.test", direct},
		{[]string{"HTTPS_PROXY=http://secure.test:1", "NO_PROXY=near.test"}, "https://near.test", direct},
		{[]string{"http_proxy=http://plain.test:2"}, "http://127.0.0.1", direct},
		{nil, "https://far.test", direct},
	} {
		cmd := exec.CommandContext(t.Context(), program)
		// The first variable is needed by Go on Windows; the second avoids a
		// wait of the race detector.
		cmd.Env = append(tt.env, targetVariable+"="+tt.target, "SYSTEMROOT="+os.Getenv("SYSTEMROOT"), "GORACE=atexit_sleep_ms=0")
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != tt.want {
			t.Errorf("with %v, %s goes through %q, %v; want %s", tt.env, tt.target, got, err, tt.want)
		}
	}
}
