package egress

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const testSecret = "hush-0123456789-abcdef"

// secretFile creates a file with a credential in a directory of its own.
func secretFile(t *testing.T, value string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secrets", "token")
	if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(value), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// tlsServer starts a server with TLS, and returns its port and the path of its
// certificate.
func tlsServer(t *testing.T, handler http.HandlerFunc) (port, ca string) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, port, _ = net.SplitHostPort(s.Listener.Addr().String())
	return port, ca
}

// injecting returns the proxy of a process whose server injects credentials. The host names in
// these tests are those of httptest's certificate, and resolve to this machine.
func injecting(t *testing.T, hooks Hooks, list ...Injection) *Proxy {
	t.Helper()
	return injectingWith(t, Options{}, hooks, list...)
}

func injectingWith(t *testing.T, o Options, hooks Hooks, list ...Injection) *Proxy {
	t.Helper()
	var err error
	o.Ceiling, err = NewCeiling(CeilingConfig{Default: Allow, PrivateAddresses: true, Inject: list})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Ceiling.CheckFiles(); err != nil {
		t.Fatal(err)
	}
	o.BundleDir = t.TempDir()
	o.Resolve = names(new([]string))
	config := Config{SOCKS5: true, Upstream: true, LocalBinding: true, Domains: map[string]Permission{"*": Allow}}
	return testProxy(t, o, config, hooks)
}

// placed is an injection for 127.0.0.1.
func placed(port, ca, file string) Injection {
	return Injection{
		Host: "127.0.0.1:" + port, Header: "authorization", Scheme: "Bearer", ValueFile: file, PlaceholderEnv: "MY_TOKEN", UpstreamCA: ca,
	}
}

// variable returns a variable of the process's environment.
func variable(x *Proxy, name string) string {
	for _, kv := range x.Environ(nil) {
		if value, found := strings.CutPrefix(kv, name+"="); found {
			return value
		}
	}
	return ""
}

// trusting returns a TLS configuration that trusts only the process's bundle.
func trusting(t *testing.T, x *Proxy, name string) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(variable(x, "SSL_CERT_FILE"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatal("the bundle holds no certificates")
	}
	return &tls.Config{RootCAs: pool, ServerName: name, NextProtos: []string{"h2", "http/1.1"}}
}

// secure opens a tunnel by CONNECT, and TLS in it.
func secure(t *testing.T, x *Proxy, target string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, r := wire(t, x.web)
	if resp, body := exchange(t, conn, r, "CONNECT "+target+" HTTP/1.1\r\n\r\n"); resp.StatusCode != http.StatusOK {
		t.Fatalf("got resp.Status %s, body %s; want resp.StatusCode %v", resp.Status, body, http.StatusOK)
	}
	host, _, _ := net.SplitHostPort(target)
	inner := tls.Client(conn, trusting(t, x, host))
	if err := inner.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if protocol := inner.ConnectionState().NegotiatedProtocol; protocol != "http/1.1" {
		t.Errorf("the protocol is %q", protocol)
	}
	return inner, bufio.NewReader(inner)
}

// show answers with the request that it received.
func show(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	good := r.Header.Get("Authorization") == "Bearer "+testSecret
	fmt.Fprintf(w, "%s %s %s %v %d %s", r.Method, r.RequestURI, r.Host, good, len(r.Header["Authorization"]), body)
}

// TestInjection: the credential replaces the process's header in each request, however the process
// connects to the host.
func TestInjection(t *testing.T) {
	port, ca := tlsServer(t, show)
	x := injecting(t, Hooks{}, placed(port, ca, secretFile(t, "  "+testSecret+"\n")))
	placeholder := variable(x, "MY_TOKEN")
	if !strings.HasPrefix(placeholder, placeholderPrefix) || len(placeholder) != len(placeholderPrefix)+2*placeholderBytes {
		t.Errorf("the placeholder is %q", placeholder)
	}
	origin := "127.0.0.1:" + port
	conn, r := secure(t, x, origin)
	for _, tt := range []struct{ request, status, body string }{
		{"GET /a?b=%20c HTTP/1.1\r\nHost: ORIGIN\r\n\r\n", "200", "GET /a?b=%20c ORIGIN true 1 "},
		{"GET /a HTTP/1.1\r\nHost: ORIGIN\r\nAuthorization: Bearer PLACEHOLDER\r\nauthorization: other\r\n\r\n", "200", "GET /a ORIGIN true 1 "},
		{"GET //x/y HTTP/1.1\r\nHost: ORIGIN\r\n\r\n", "200", "GET //x/y ORIGIN true 1 "},
		{"GET //x|y HTTP/1.1\r\nHost: ORIGIN\r\n\r\n", "200", "GET https://ORIGIN//x|y ORIGIN true 1 "},
		{"GET https://ORIGIN/a HTTP/1.1\r\nHost: ORIGIN\r\n\r\n", "200", "GET /a ORIGIN true 1 "},
		{"POST / HTTP/1.1\r\nHost: ORIGIN\r\nContent-Length: 3\r\nConnection: authorization\r\n\r\nabc", "200", "POST / ORIGIN true 1 abc"},
		{"POST / HTTP/1.1\r\nHost: ORIGIN\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "200", "POST / ORIGIN true 1 abc"},
		{"POST / HTTP/1.1\r\nHost: ORIGIN\r\nContent-Length: 3\r\n\r\nabc", "200", "POST / ORIGIN true 1 abc"},
		{"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n", "421", "the request names another host than the connection"},
		{"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "421", "the request names another host than the connection"},
		{"GET https://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n", "421", "the request names another host than the connection"},
		{"GET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n\r\n", "400", "Host header does not match request target"},
		{"GET / HTTP/1.1\r\nHost: ORIGIN\r\nHost: other.test\r\n\r\n", "400", "multiple Host headers"},
		{"GET / HTTP/1.1\r\n\r\n", "400", "missing host"},
		{"CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n", "400", "missing host"},
		{"TRACE / HTTP/1.1\r\nHost: ORIGIN\r\n\r\n", "405", "TRACE is not sent to a host that gets credentials"},
	} {
		fill := strings.NewReplacer("ORIGIN", origin, "PLACEHOLDER", placeholder)
		resp, body := exchange(t, conn, r, fill.Replace(tt.request))
		if resp.Status[:3] != tt.status || body != fill.Replace(tt.body) {
			t.Errorf("%q: got resp.Status %s, body %q; want resp.Status[:3] %v, body fill.Replace(tt.body)", tt.request, resp.Status, body, tt.status)
		}
	}

	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	outer, _ := wire(t, x.socks)
	request := []byte{5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, byte(number >> 8), byte(number)}
	if _, err := outer.Write(request); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(outer, make([]byte, 12)); err != nil {
		t.Fatal(err)
	}
	inner := tls.Client(outer, trusting(t, x, "127.0.0.1"))
	if resp, body := exchange(t, inner, bufio.NewReader(inner), "GET / HTTP/1.1\r\nHost: "+origin+"\r\n\r\n"); body != "GET / "+origin+" true 1 " {
		t.Errorf("SOCKS: %s %s", resp.Status, body)
	}
}

// TestRepeatedCredentials: if a host repeats the credential anywhere in its answer, the process
// does not receive it and the log does not contain it, however the proxy changes or quotes that
// part.
func TestRepeatedCredentials(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nConnection: close\r\n"
	answers := map[string]string{
		"a line that is no header":   head + "SECRET\r\n\r\n",
		"no answer of HTTP":          "SECRET\r\n\r\n",
		"a status that is no number": "HTTP/1.1 SECRET no\r\n\r\n",
		"a reason":                   "HTTP/1.1 200 SECRET\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"the name of a header":       head + "X-SECRET: 1\r\nContent-Length: 2\r\n\r\nok",
		"the value of a header":      head + "X-Seen: SECRET\r\nContent-Length: 2\r\n\r\nok",
		"a compression":              head + "Content-Encoding: SECRET\r\nContent-Length: 2\r\n\r\nok",
		"a transfer":                 head + "Transfer-Encoding: SECRET\r\n\r\n",
		"a length":                   head + "Content-Length: SECRET\r\n\r\n",
		"the size of a chunk":        head + "Transfer-Encoding: chunked\r\n\r\nSECRET\r\n",
		"a trailer":                  head + "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: SECRET\r\n\r\n",
		"another protocol":           "HTTP/1.1 101 SECRET\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nSECRET",
	}
	for _, secret := range []string{"sk-live-1f2e3d4c5b6a7988", `p"ss\word-0123456789`, "Sk-LiVe-1F2e3D4c5B6a7988"} {
		port, ca := tlsServer(t, func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				told := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
				_, _ = io.WriteString(conn, strings.ReplaceAll(answers[r.URL.Query().Get("where")], "SECRET", told))
				_ = conn.Close()
			}
		})
		var log bytes.Buffer
		o := Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
		x := injectingWith(t, o, Hooks{}, placed(port, ca, secretFile(t, secret)))
		told := func(text string) bool {
			unquote := strings.NewReplacer(`\"`, `"`, `\\`, `\`)
			once := unquote.Replace(text)
			return strings.Contains(strings.ToLower(text+once+unquote.Replace(once)), strings.ToLower(secret))
		}
		for where := range answers {
			conn, r := secure(t, x, "127.0.0.1:"+port)
			request := "GET /?where=" + url.QueryEscape(where) + " HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\nConnection: close\r\n\r\n"
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(r)
			if told(string(got)) || where != "the size of a chunk" && !strings.HasPrefix(string(got), "HTTP/1.1 ") {
				t.Errorf("%s has %s: the process gets %q", where, secret, got)
			}
		}
		x.Close()
		if told(log.String()) {
			t.Errorf("the log tells %s: %s", secret, &log)
		}
	}
}

// TestInjectionOfBasic: the proxy sends the credential of the scheme Basic in base64, and removes
// both its plain and its base64 form from answers.
func TestInjectionOfBasic(t *testing.T) {
	port, ca := tlsServer(t, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		fmt.Fprintf(w, "%s %v %s %s", user, password == testSecret, password, r.Header.Get("Authorization"))
	})
	entry := placed(port, ca, secretFile(t, "user:"+testSecret))
	entry.Scheme = "basic"
	x := injecting(t, Hooks{}, entry)
	conn, r := secure(t, x, "127.0.0.1:"+port)
	resp, body := exchange(t, conn, r, "GET / HTTP/1.1\r\nHost: 127.0.0.1:"+port+"\r\nAccept-Encoding: gzip\r\n\r\n")
	hidden := "basic " + strings.Repeat("*", 36)
	if want := "user true " + strings.Repeat("*", len(testSecret)) + " " + hidden; body != want || resp.Header.Get("X-Echo") != hidden {
		t.Errorf("%q, %q; want %q", body, resp.Header.Get("X-Echo"), want)
	}
}

// TestCredentialChanges: the credential file is read for each request, and is not used if others
// may read it.
func TestCredentialChanges(t *testing.T) {
	port, ca := tlsServer(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, len(r.Header.Get("X-Key")))
	})
	file := secretFile(t, testSecret)
	entry := placed(port, ca, file)
	entry.Header, entry.Scheme = "x-key", ""
	x := injecting(t, Hooks{}, entry)
	conn, r := secure(t, x, "127.0.0.1:"+port)
	for _, tt := range []struct {
		value string
		mode  os.FileMode
		want  string
	}{
		{testSecret, 0o600, strconv.Itoa(len(testSecret))},
		{"another-value", 0o600, "13"},
		{"another-value", 0o644, "the server cannot read the credential for this host; its log says why"},
		{"short", 0o600, "the server cannot read the credential for this host; its log says why"},
		{testSecret, 0o400, strconv.Itoa(len(testSecret))},
	} {
		if err := errors.Join(os.Remove(file), os.WriteFile(file, []byte(tt.value), 0o600), os.Chmod(file, tt.mode)); err != nil {
			t.Fatal(err)
		}
		if resp, body := exchange(t, conn, r, "GET / HTTP/1.1\r\nHost: 127.0.0.1:"+port+"\r\n\r\n"); body != tt.want {
			t.Errorf("%q: got resp.Status %s, body %q; want body %q", tt.value, resp.Status, body, tt.want)
		}
	}
}

// TestMisusedPlaceholders: a placeholder that is sent to another host is refused and reported,
// wherever it is in the request. No part of it is forwarded.
func TestMisusedPlaceholders(t *testing.T) {
	port, ca := tlsServer(t, show)
	second, secondCA := tlsServer(t, show)
	var got reports
	x := injecting(t, Hooks{Report: got.add}, placed(port, ca, secretFile(t, testSecret)), Injection{
		Host: "127.0.0.1:" + second, Header: "X-Key", ValueFile: secretFile(t, testSecret), UpstreamCA: secondCA,
	})
	placeholder := variable(x, "MY_TOKEN")
	plain := webServer(t)
	const refused = "The request holds a credential placeholder that is for another host."
	big := strings.Repeat("x", 3*copyBuffer)
	requests := map[string]string{
		"path":     "GET /PLACEHOLDER HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
		"query":    "GET /?a=PLACEHOLDER HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
		"header":   "GET / HTTP/1.1\r\nHost: ORIGIN\r\nX: a PLACEHOLDER b\r\n\r\n",
		"name":     "GET / HTTP/1.1\r\nHost: ORIGIN\r\nPLACEHOLDER: 1\r\n\r\n",
		"password": "GET / HTTP/1.1\r\nHost: ORIGIN\r\nAuthorization: Basic BASIC\r\n\r\n",
		"body":     fmt.Sprintf("POST / HTTP/1.1\r\nHost: ORIGIN\r\nContent-Length: %d\r\n\r\n%sPLACEHOLDER", len(big)+len(placeholder), big),
		"chunks": fmt.Sprintf("POST / HTTP/1.1\r\nHost: ORIGIN\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n",
			placeholder[:5], len(placeholder)-5, placeholder[5:]),
	}
	fill := func(text, origin string) string {
		return strings.NewReplacer("ORIGIN", origin, "PLACEHOLDER", placeholder, "BASIC", basicOf("u:"+placeholder)).Replace(text)
	}
	for name, request := range requests {
		conn, r := wire(t, x.web)
		resp, body := exchange(t, conn, r, fill(request, plain))
		if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, refused) || !strings.Contains(body, `"reason":"credential_placeholder"`) {
			t.Errorf("plain, %s: %s %q", name, resp.Status, body)
		}
		inner, r := secure(t, x, "127.0.0.1:"+second)
		resp, body = exchange(t, inner, r, fill(request, "127.0.0.1:"+second))
		if resp.StatusCode != http.StatusForbidden || body != refused {
			t.Errorf("in a tunnel, %s: %s %q", name, resp.Status, body)
		}
	}
	conn, r := wire(t, x.web)
	if resp, body := exchange(t, conn, r, "CONNECT "+placeholder+".test:443 HTTP/1.1\r\n\r\n"); resp.StatusCode != http.StatusForbidden || body != refused {
		t.Errorf("as a name: %s %q", resp.Status, body)
	}
	count := 0
	for _, line := range got.all() {
		if strings.Contains(line, "deny baseline_policy credential_placeholder") {
			count++
		}
	}
	if count != 2*len(requests)+1 {
		t.Errorf("%d reports: %q", count, got.all())
	}
	inner, r := secure(t, x, "127.0.0.1:"+port)
	if resp, body := exchange(t, inner, r, fill(requests["query"], "127.0.0.1:"+port)); resp.StatusCode != http.StatusOK || !strings.Contains(body, " true 1") {
		t.Errorf("at its own host: %s %q", resp.Status, body)
	}
}

// basicOf encodes credentials of the scheme Basic.
func basicOf(text string) string {
	r := &http.Request{Header: http.Header{}}
	user, password, _ := strings.Cut(text, ":")
	r.SetBasicAuth(user, password)
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Basic ")
}

// TestOtherTunnelsStayClosed: connections to other hosts and ports are plain tunnels without
// credentials, and the process's authority signs for no other names.
func TestOtherTunnelsStayClosed(t *testing.T) {
	port, ca := tlsServer(t, show)
	other, _ := tlsServer(t, show)
	x := injecting(t, Hooks{}, placed(port, ca, secretFile(t, testSecret)))
	conn, r := wire(t, x.web)
	_, _ = exchange(t, conn, r, "CONNECT 127.0.0.1:"+other+" HTTP/1.1\r\n\r\n")
	config := trusting(t, x, "127.0.0.1")
	var unknown x509.UnknownAuthorityError
	if err := tls.Client(conn, config).HandshakeContext(t.Context()); !errors.As(err, &unknown) {
		t.Errorf("the certificate is not the server's own: %v", err)
	}
	conn, r = wire(t, x.web)
	_, _ = exchange(t, conn, r, "CONNECT 127.0.0.1:"+port+" HTTP/1.1\r\n\r\n")
	if err := tls.Client(conn, trusting(t, x, "other.test")).HandshakeContext(t.Context()); err == nil {
		t.Error("TLS for another name than the tunnel's")
	}
	leaf, err := x.secrets.authority.leaf("evil.test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: config.RootCAs, DNSName: "evil.test"}); err == nil {
		t.Error("the authority can sign for any name")
	}
}

// TestInjectionThroughUpstream: behind a corporate proxy, the requests go through a tunnel that
// this proxy opens to the host's name.
func TestInjectionThroughUpstream(t *testing.T) {
	port, ca := tlsServer(t, show)
	asked := make(chan string, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.RequestURI
		out, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Error(err)
			return
		}
		defer out.Close()
		w.WriteHeader(http.StatusOK)
		in, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer in.Close()
		go func() { _, _ = io.Copy(out, buffered) }()
		_, _ = io.Copy(in, out)
	}))
	defer upstream.Close()
	entry := placed(port, ca, secretFile(t, testSecret))
	entry.Host = "example.com:8443" // a name of httptest's certificate
	x := injectingWith(t, Options{Getenv: func(name string) string {
		if name == "HTTPS_PROXY" {
			return upstream.URL
		}
		return ""
	}}, Hooks{}, entry)
	conn, r := secure(t, x, "example.com:8443")
	resp, body := exchange(t, conn, r, "GET / HTTP/1.1\r\nHost: example.com:8443\r\n\r\n")
	if body != "GET / example.com:8443 true 1 " {
		t.Errorf(`got resp.Status %s, body %s; want body "GET / example.com:8443 true 1 "`, resp.Status, body)
	}
	if got := <-asked; got != "CONNECT example.com:8443" {
		t.Errorf("the upstream proxy was asked for %s", got)
	}
}
