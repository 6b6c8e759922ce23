package harness

import (
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
	"sync"
	"testing"
	"time"
)

// Authority makes a certificate for hosts, and returns the PEM of its authority.
func Authority(t *testing.T, hosts ...string) (tls.Certificate, []byte) {
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

// ConnectProxy starts an HTTP proxy that connects to address, whatever host a client requests. It
// returns the proxy's URL.
func ConnectProxy(t *testing.T, address string) string {
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
