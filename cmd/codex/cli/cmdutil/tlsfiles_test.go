package cmdutil

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// selfSigned writes a certificate for localhost and its key. The certificate is also an authority.
func selfSigned(t *testing.T) TLSFiles {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"localhost"}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f := TLSFiles{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), ClientCA: filepath.Join(dir, "cert.pem")}
	for name, block := range map[string]*pem.Block{f.Cert: {Type: "CERTIFICATE", Bytes: cert}, f.Key: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// TestSessionsAreNotResumed: a client that kept a session of an earlier connection must show its
// certificate again. The server verifies it with the current authorities.
func TestSessionsAreNotResumed(t *testing.T) {
	files := selfSigned(t)
	server, err := files.Server(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots, err := clientAuthorities("test", files.Cert)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		client := &tls.Config{
			RootCAs: roots, ServerName: "localhost", Certificates: []tls.Certificate{pair}, MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(4),
		}
		for range 3 {
			ours, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				conn := tls.Server(theirs, server)
				_, err := conn.Write([]byte("x")) // the client reads a ticket before this byte
				done <- err
			}()
			conn := tls.Client(ours, client)
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if conn.ConnectionState().DidResume {
				t.Errorf("TLS version %x: the session was resumed", version)
			}
			_, _ = ours.Close(), theirs.Close()
		}
	}
}
