//go:build linux

package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// authority makes a certificate for hosts, and the PEM of who vouches for it.
func authority(t *testing.T, hosts ...string) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: hosts[0]}, DNSNames: hosts,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// connectProxy is an HTTP proxy that connects to address, wherever it is told
// to. It returns its URL.
func connectProxy(t *testing.T, address string) string {
	t.Helper()
	var tunnels sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			t.Errorf("%s %s came to the proxy", r.Method, r.URL)
			return
		}
		there, err := net.Dial("tcp", address)
		if err != nil {
			t.Error(err)
			return
		}
		here, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		tunnels.Go(func() { _, _ = io.Copy(there, buffered); _ = there.Close() })
		tunnels.Go(func() { _, _ = io.Copy(here, there); _ = here.Close() })
	}))
	t.Cleanup(func() { server.Close(); tunnels.Wait() })
	return server.URL
}

// The identity service has a fixed address; the way there leads through the
// user's proxy, and it is who the user's certificate authority says.
func TestLoginThroughAProxy(t *testing.T) {
	const host = "auth.openai.com"
	certificate, ca := authority(t, host)
	var mu sync.Mutex
	var asked []string
	service := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Method+" "+r.Host+r.URL.Path+" "+r.Header.Get("Authorization")+" "+r.Header.Get("Accept-Encoding"))
		_, _ = io.WriteString(w, `{"chatgpt_account_id":"acct-1"}`)
	}))
	service.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	service.StartTLS()
	defer service.Close()
	home := t.TempDir()
	bundle := filepath.Join(home, "ca.pem")
	if err := os.WriteFile(bundle, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	login := func(stdin string, args ...string) string {
		cmd := exec.Command(codex, args...)
		cmd.Env = []string{"CODEX_HOME=" + home, "HOME=" + home, "PATH=/nowhere", "HTTPS_PROXY=" + connectProxy(t, service.Listener.Addr().String()), "CODEX_CA_CERTIFICATE=" + bundle}
		var errs bytes.Buffer
		cmd.Stdin, cmd.Stderr = strings.NewReader(stdin), &errs
		if err := cmd.Run(); err != nil {
			t.Errorf("codex %q: %v: %s", args, err, errs.String())
		}
		return errs.String()
	}
	if got := login("at-5\n", "login", "--with-access-token"); got != "Reading access token from stdin...\nSuccessfully logged in\n" {
		t.Errorf("login: %q", got)
	}
	if got := login("", "login", "status"); got != "Logged in using personal access token\n" {
		t.Errorf("login status: %q", got)
	}
	if got := login("", "logout"); got != "Successfully logged out\n" {
		t.Errorf("logout: %q", got)
	}
	mu.Lock()
	defer mu.Unlock()
	const whoami = "GET " + host + "/api/accounts/v1/user-auth-credential/whoami Bearer at-5 "
	if len(asked) != 2 || asked[0] != whoami || asked[1] != whoami {
		t.Errorf("asked: %q", asked)
	}
}
