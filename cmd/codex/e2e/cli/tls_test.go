package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
)

// authority is a certificate authority.
type authority struct {
	t    *testing.T
	dir  string // directory of the files
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority creates an authority. Its certificate is the file NAME.pem of a directory.
func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: dir}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true}
	a.cert, a.key = a.issue(name, template)
	return a
}

// issue creates NAME.pem and NAME.key.
func (a *authority) issue(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	harness.Must(a.t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	harness.Must(a.t, err)
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	harness.Must(a.t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	harness.Must(a.t, err)
	a.write(name+".pem", "CERTIFICATE", der)
	a.write(name+".key", "PRIVATE KEY", secret)
	cert, err := x509.ParseCertificate(der)
	harness.Must(a.t, err)
	return cert, key
}

// write replaces a file in one step, as tools that renew certificates do.
func (a *authority) write(name, kind string, der []byte) {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	harness.Must(a.t, os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	harness.Must(a.t, os.Rename(path+".new", path))
}

func (a *authority) server(name string) {
	a.t.Helper()
	a.issue(name, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
}

func (a *authority) client(name string) {
	a.t.Helper()
	a.issue(name, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// TestTLS: a server of wss:// admits only clients with a certificate of its authority. When its own
// certificate is replaced, it presents the new one.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	ours, clients, others := newAuthority(t, dir, "ours"), newAuthority(t, dir, "clients"), newAuthority(t, dir, "others")
	ours.server("server")
	clients.client("me")
	others.client("else")
	_, url := harness.Server(t, "--listen", "wss://127.0.0.1:0",
		"--tls-cert", file("server.pem"), "--tls-key", file("server.key"), "--tls-client-ca", file("clients.pem"))
	if !strings.HasPrefix(url, "wss://127.0.0.1:") {
		t.Fatalf(`got %v, want a text beginning with "wss://127.0.0.1:"`, url)
	}
	me := []string{"--client-cert", file("me.pem"), "--client-key", file("me.key")}
	check := func(what string, code int, want string, args ...string) {
		t.Helper()
		args = append(append([]string{"remote", "run", "--url", url}, args...), "--", "echo", "hello")
		if out, errs, got := harness.Run(t, "", args...); got != code || !strings.Contains(out+errs, want) {
			t.Errorf("%s: %d %q %q, want %d %q", what, got, out, errs, code, want)
		}
	}
	check("all is right", 0, "hello\n", append(me, "--ca", file("ours.pem"))...)
	check("an authority that is not trusted", 255, "certificate", me...)
	check("another authority", 255, "certificate", append(me, "--ca", file("others.pem"))...)
	check("no certificate", 255, "certificate required", "--ca", file("ours.pem"))
	check("a certificate of another authority", 255, "", "--ca", file("ours.pem"), "--client-cert", file("else.pem"), "--client-key", file("else.key"))
	check("a key of another certificate", 255, "me.pem with the key", "--ca", file("ours.pem"), "--client-cert", file("me.pem"), "--client-key", file("else.key"))
	check("no key", 2, "must be given together", "--client-cert", file("me.pem"))
	check("no such file", 255, "no such file", "--ca", file("none.pem"))

	// Another authority issues a new server certificate.
	others.server("server")
	check("the new certificate", 0, "hello\n", append(me, "--ca", file("others.pem"))...)
	check("the old authority", 255, "certificate", append(me, "--ca", file("ours.pem"))...)
	harness.Must(t, os.WriteFile(file("server.pem"), []byte("nothing"), 0o600))
	check("a file that is wrong", 0, "hello\n", append(me, "--ca", file("others.pem"))...)
	// Another authority also replaces the authority of the clients.
	harness.Must(t, os.Rename(file("others.pem"), file("clients.pem")))
	others.server("server")
	others.write("others.pem", "CERTIFICATE", others.cert.Raw)
	check("a client that was admitted before", 255, "", append(me, "--ca", file("others.pem"))...)
	check("a client that was refused before", 0, "hello\n", "--ca", file("others.pem"), "--client-cert", file("else.pem"), "--client-key", file("else.key"))
}

// TestTLSOfAnEnvironment connects to a server whose certificate files are named in
// environments.toml.
func TestTLSOfAnEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ours := newAuthority(t, dir, "ours")
	ours.server("server")
	ours.client("me")
	_, url := harness.Server(t, "--listen", "wss://127.0.0.1:0", "--tls-cert", filepath.Join(dir, "server.pem"),
		"--tls-key", filepath.Join(dir, "server.key"), "--tls-client-ca", filepath.Join(dir, "ours.pem"))
	home, env := harness.HomeDirectory(t, map[string]string{
		"environments.toml": "default = 'box'\n[[environments]]\nid = 'box'\nurl = '" + url + "'\nca = 'ours.pem'\nclient_cert = 'me.pem'\nclient_key = 'me.key'\n",
	})
	for _, name := range []string{"ours.pem", "me.pem", "me.key"} {
		harness.Must(t, os.Rename(filepath.Join(dir, name), filepath.Join(home, name)))
	}
	if out, errs, code := harness.RunWith(t, env, home, "", "remote", "run", "--", "echo", "hello"); code != 0 || out != "hello\n" {
		t.Errorf("got exit code %d, stdout %q, stderr %q; want exit code 0, stdout %q", code, out, errs, "hello\n")
	}
	if out, errs, code := harness.RunWith(t, env, home, "", "environments", "check", "box"); code != 0 || !strings.Contains(out, "ok") {
		t.Errorf(`got exit code %d, stdout %q, stderr %q; want exit code 0, stdout with "ok"`, code, out, errs)
	}
}

// TestTLSIsChosenWell: the server refuses files that are not certificates before it listens.
func TestTLSIsChosenWell(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	newAuthority(t, dir, "ours").server("server")
	cert, key := filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")
	for _, tt := range []struct{ args, want string }{
		{"--listen wss://127.0.0.1:0 --tls-cert " + cert + " --tls-key " + cert, "--tls-cert " + cert + ", --tls-key " + cert + ": "},
		{"--listen wss://127.0.0.1:0 --tls-cert " + cert + " --tls-key /none", "--tls-key /none: no such file or directory"},
		{"--listen wss://127.0.0.1:0 --tls-cert " + cert + " --tls-key " + key + " --tls-client-ca " + key, "--tls-client-ca " + key + ": it has no certificate"},
		{"--listen wss://0.0.0.0:0 --tls-cert " + cert + " --tls-key " + key, "add --ws-auth"},
	} {
		out, errs, code := harness.Run(t, "", append([]string{"exec-server"}, strings.Fields(tt.args)...)...)
		if code != 1 || out != "" || !strings.Contains(errs, tt.want) {
			t.Errorf(`%s: got exit code %d, stdout %q, stderr %q; want exit code 1, stdout "", stderr with %q`, tt.args, code, out, errs, tt.want)
		}
	}
}
