package egress

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// testTimeout limits waits that take this long only if the program has a defect.
const testTimeout = 20 * time.Second

// local is a policy that allows the servers of these tests.
func local() Config {
	return Config{SOCKS5: true, Upstream: true, Domains: map[string]Permission{"localhost": Allow, "127.0.0.1": Allow, "denied.test": Deny}}
}

type reports struct {
	mu   sync.Mutex
	list []string
}

func (l *reports) add(r Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, fmt.Sprintf("%v %s %s %s %s %s %s", r.Domain, r.Verdict, r.Source, r.Reason, r.Protocol, r.Host, r.Method))
}

func (l *reports) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// wire connects to a port of a proxy.
func wire(t *testing.T, l net.Listener) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	return conn, bufio.NewReader(conn)
}

// exchange sends a request and returns the answer with its body.
func exchange(t *testing.T, conn net.Conn, r *bufio.Reader, request string) (*http.Response, string) {
	t.Helper()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%q: got error %v, want no error", request, err)
	}
	if method == http.MethodConnect && resp.StatusCode == http.StatusOK {
		return resp, ""
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%q: got error %v, want no error", request, err)
	}
	return resp, string(text)
}

// web is a server that shows the requests that it receives.
func webServer(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		names := make([]string, 0, len(r.Header))
		for name := range r.Header {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(w, "%s %s %s %v %s", r.Method, r.RequestURI, r.Host, names, body)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func TestPlainRequests(t *testing.T) {
	server := webServer(t)
	_, port, _ := net.SplitHostPort(server)
	x := testProxy(t, Options{}, local(), Hooks{})
	conn, r := wire(t, x.web)
	for _, tt := range []struct{ request, status, body string }{
		{"GET http://SERVER/a?b=%20c HTTP/1.1\r\nHost: SERVER\r\n\r\n", "200", "GET /a?b=%20c SERVER [] "},
		{"GET http://user:pw@SERVER/a|b//c#d HTTP/1.1\r\nHost: SERVER\r\n\r\n", "200", "GET /a|b//c SERVER [] "},
		{"GET http://SERVER//evil.test/x HTTP/1.1\r\nHost: SERVER\r\n\r\n", "200", "GET //evil.test/x SERVER [] "},
		{"GET http://SERVER//a%20b HTTP/1.1\r\nHost: SERVER\r\n\r\n", "200", "GET //a%20b SERVER [] "},
		{"GET http://SERVER//a%2Fb%7E HTTP/1.1\r\nHost: SERVER\r\n\r\n", "200", "GET //a%2Fb%7E SERVER [] "},
		{"GET http://SERVER//a|b?c HTTP/1.1\r\nHost: SERVER\r\n\r\n", "200", "GET http://SERVER//a|b?c SERVER [] "},
		{"GET http://SERVER?q HTTP/1.1\r\nHost: SERVER\r\n\r\n", "200", "GET /?q SERVER [] "},
		{"GET http://SERVER HTTP/1.1\r\n\r\n", "200", "GET / SERVER [] "},
		{"GET http://SERVER/? HTTP/1.1\r\n\r\n", "200", "GET /? SERVER [] "},
		{"GET ws://SERVER/ HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", "200", "GET / SERVER [] "},
		{"GET /a HTTP/1.1\r\nHost: LOCALHOST.:PORT\r\n\r\n", "200", "GET /a LOCALHOST.:PORT [] "},
		{"POST http://SERVER/ HTTP/1.1\r\nHost: SERVER\r\nContent-Length: 3\r\nUser-Agent: me\r\n\r\nabc", "200",
			"POST / SERVER [Content-Length User-Agent] abc"},
		{"POST http://SERVER/ HTTP/1.1\r\nHost: SERVER\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX: 1\r\n\r\n",
			"200", "POST / SERVER [] abcde"},
		{"GET http://SERVER/ HTTP/1.1\r\nHost: SERVER\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: 3\r\nTE: trailers\r\n" +
			"Proxy-Authorization: Basic eA==\r\nProxy-Connection: keep-alive\r\nX-Stays: 2\r\n\r\n", "200", "GET / SERVER [X-Stays] "},
		{"GET http://other.test:81/ HTTP/1.1\r\nHost: other.test:81\r\n\r\n", "403", `{"status":"blocked","host":"other.test","reason":"not_allowed",` +
			`"decision":"deny","source":"baseline_policy","protocol":"http","port":81,"message":"Domain not in allowlist."}`},
		{"POST http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\nContent-Length: 3\r\n\r\nabc", "403", `{"status":"blocked","host":"denied.test",` +
			`"reason":"denied","decision":"deny","source":"baseline_policy","protocol":"http","port":80,"message":"Domain denied by the sandbox policy."}`},
		{"GET http://[64:ff9b::7f00:1]:80/ HTTP/1.1\r\n\r\n", "403", `{"status":"blocked","host":"64:ff9b::7f00:1","reason":"not_allowed_local",` +
			`"decision":"deny","source":"baseline_policy","protocol":"http","port":80,"message":"Sandbox policy blocks local/private network addresses."}`},
		{"GET http://SERVER/ HTTP/1.1\r\nHost: other.test\r\n\r\n", "400", "Host header does not match request target"},
		{"GET http://SERVER/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "400", "Host header does not match request target"},
		{"GET http://SERVER/ HTTP/1.1\r\nHost: SERVER\r\nHost: SERVER\r\n\r\n", "400", "multiple Host headers"},
		{"GET http://[::1]/ HTTP/1.1\r\nHost: [::1]\r\n\r\n", "400", "invalid Host header"},
		{"GET /x HTTP/1.1\r\n\r\n", "400", "missing host"},
		{"GET http://a.test../ HTTP/1.1\r\n\r\n", "400", "missing host"},
		{"GET http://localhost:1/ HTTP/1.1\r\n\r\n", "502", "upstream failure"},
		{"GET https://SERVER/ HTTP/1.1\r\n\r\n", "502", "upstream failure"},
		{"GET /x HTTP/1.1\r\nHost: a\r\nX-Unix-Socket: /run/x\r\n\r\n", "501", "unix sockets unsupported"},
	} {
		fill := strings.NewReplacer("SERVER", server, "PORT", port)
		resp, body := exchange(t, conn, r, fill.Replace(tt.request))
		if resp.Status[:3] != tt.status || body != fill.Replace(tt.body) {
			t.Errorf("%q: got resp.Status %s, body %q; want resp.Status[:3] %v, body fill.Replace(tt.body)", tt.request, resp.Status, body, tt.status)
		}
		kind := resp.Header.Get("Content-Type")
		if resp.StatusCode == http.StatusForbidden && kind != "application/json" || resp.StatusCode == http.StatusBadRequest && kind != "text/plain" {
			t.Errorf(`%q: got %s; want "application/json", "text/plain"`, tt.request, kind)
		}
	}
}

// TestPipelining: if one packet has several requests, each request is judged by itself.
// TestOtherProtocols: what cannot be HTTP is answered when it arrives. A client of another protocol sends no line end, and waits
// for an answer.
func TestOtherProtocols(t *testing.T) {
	x := testProxy(t, Options{}, local(), Hooks{})
	for _, sent := range []string{"\x16\x03\x01\x02\x00\x01", "\x05\x01\x00", "\x00\x00\x00\x08", "AMQP\x00\x00\x09\x01", "\r\n\x16\x03", "\xff\xfb"} {
		conn, r := wire(t, x.web)
		if resp, _ := exchange(t, conn, r, sent); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: got status %d, want 400", sent, resp.StatusCode)
		}
	}
	conn, r := wire(t, x.web)
	for _, part := range []string{"\r\n", "GE", "T http://deni", "ed.test/ HTTP/"} {
		if _, err := io.WriteString(conn, part); err != nil {
			t.Fatal(err)
		}
	}
	if resp, _ := exchange(t, conn, r, "1.1\r\n\r\n"); resp.StatusCode != http.StatusForbidden {
		t.Errorf("a request in parts: got status %d, want 403", resp.StatusCode)
	}
}

func TestPipelining(t *testing.T) {
	server := webServer(t)
	var seen reports
	x := testProxy(t, Options{}, local(), Hooks{Report: seen.add})
	conn, r := wire(t, x.web)
	one, two := "GET http://"+server+"/ HTTP/1.1\r\n\r\n", "GET http://other.test/ HTTP/1.1\r\n\r\n"
	_, _ = io.WriteString(conn, one+two+one)
	for _, want := range []int{200, 403, 200} {
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != want {
			t.Fatal(resp, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	want := []string{
		"true allow baseline_policy allow http 127.0.0.1 GET", "true deny baseline_policy not_allowed http other.test GET",
		"true allow baseline_policy allow http 127.0.0.1 GET",
	}
	if !slices.Equal(seen.all(), want) {
		t.Errorf("got %q, want %q", seen.all(), want)
	}
}

// TestContinue: the proxy requests a body that the process holds back.
func TestContinue(t *testing.T) {
	server := webServer(t)
	x := testProxy(t, Options{}, local(), Hooks{})
	conn, r := wire(t, x.web)
	_, _ = io.WriteString(conn, "POST http://"+server+"/ HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
	line, err := r.ReadString('\n')
	if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatal(line, err)
	}
	_, _ = r.ReadString('\n')
	resp, body := exchange(t, conn, r, "abc")
	if resp.StatusCode != http.StatusOK || !strings.HasSuffix(body, " abc") {
		t.Errorf(`got resp.Status %s, body %q; want resp.StatusCode %v, body ending in " abc"`, resp.Status, body, http.StatusOK)
	}
}

// TestStreams: each part of an answer is delivered before the next part is written. An HTTP/1.0
// client gets it without chunks.
func TestStreams(t *testing.T) {
	next := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 2 {
			_, _ = io.WriteString(w, "part")
			_ = http.NewResponseController(w).Flush()
			<-next
		}
	}))
	defer s.Close()
	defer close(next)
	x := testProxy(t, Options{}, local(), Hooks{})
	for _, proto := range []string{"1.0", "1.1"} {
		conn, r := wire(t, x.web)
		_, _ = io.WriteString(conn, "GET "+s.URL+"/ HTTP/"+proto+"\r\n\r\n")
		resp, err := http.ReadResponse(r, nil)
		if err != nil || (len(resp.TransferEncoding) > 0) != (proto == "1.1") {
			t.Fatal(resp, err)
		}
		part := make([]byte, 4)
		for range 2 {
			if _, err := io.ReadFull(resp.Body, part); err != nil {
				t.Fatal(err)
			}
			next <- struct{}{}
		}
		if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
			t.Errorf("got rest %q, error %v; want no error, len(rest) at most 0", rest, err)
		}
	}
}

// TestLimitedMode: the limited mode permits only reading over plain HTTP.
func TestLimitedMode(t *testing.T) {
	server := webServer(t)
	config := local()
	config.Limited = true
	var seen reports
	x := testProxy(t, Options{}, config, Hooks{Report: seen.add})
	conn, r := wire(t, x.web)
	for request, want := range map[string]string{
		"GET http://" + server + "/ HTTP/1.1\r\n\r\n":             "200",
		"POST http://" + server + "/ HTTP/1.1\r\n\r\n":            "403 blocked-by-method-policy",
		"CONNECT " + server + " HTTP/1.1\r\n\r\n":                 "403 blocked-by-mitm-required",
		"POST http://other.test/ HTTP/1.1\r\n\r\n":                "403 blocked-by-allowlist",
		"POST /x HTTP/1.1\r\nHost: a\r\nX-Unix-Socket: a\r\n\r\n": "403 blocked-by-method-policy",
	} {
		resp, _ := exchange(t, conn, r, request)
		if got := strings.TrimSpace(resp.Status[:4] + resp.Header.Get("X-Proxy-Error")); got != want {
			t.Errorf("%q: %s, want %s", request, got, want)
		}
	}
	if !slices.Contains(seen.all(), "false deny mode_guard mitm_required https_connect 127.0.0.1 CONNECT") {
		t.Errorf("got %q, want a list with %v", seen.all(), "false deny mode_guard mitm_required https_connect 127.0.0.1 CONNECT")
	}
}

// TestConnectionLimit: a connection beyond the limit gets an answer with the reason.
func TestConnectionLimit(t *testing.T) {
	x := testProxy(t, Options{Connections: 1}, local(), Hooks{})
	first, r := wire(t, x.web)
	exchange(t, first, r, "GET http://other.test/ HTTP/1.1\r\n\r\n")
	second, r2 := wire(t, x.web)
	if resp, body := exchange(t, second, r2, ""); resp.StatusCode != http.StatusServiceUnavailable || body == "" {
		t.Errorf(`got resp.Status %s, body %q; want resp.StatusCode %v, body other than ""`, resp.Status, body, http.StatusServiceUnavailable)
	}
	_ = first.Close()
}

func TestEnviron(t *testing.T) {
	x := testProxy(t, Options{}, local(), Hooks{})
	env := x.Environ([]string{"PATH=/bin", "HTTP_PROXY=http://corp:1", "no_proxy=a.b", "RSYNC_PROXY=r", "CODEX_NETWORK_PROXY_ATTRIBUTION=x",
		"Http_Proxy=http://corp:1", "nO_pROXY=*"})
	if len(env) != 2+34 || env[0] != "PATH=/bin" || env[1] != "RSYNC_PROXY=r" {
		t.Errorf(`got len(env) %d, env %q; want len(env) %d, env[0] "PATH=/bin", env[1] "RSYNC_PROXY=r"`, len(env), env, 2+34)
	}
	for _, kv := range []string{
		"HTTP_PROXY=http://" + x.web.Addr().String(), "all_proxy=socks5h://" + x.socks.Addr().String(), "no_proxy=",
		"CODEX_NETWORK_PROXY_ACTIVE=1", "CODEX_NETWORK_ALLOW_LOCAL_BINDING=0",
	} {
		if !slices.Contains(env, kv) {
			t.Errorf("%s is missing", kv)
		}
	}
	y := testProxy(t, Options{}, Config{LocalBinding: true}, Hooks{})
	for _, kv := range []string{"ALL_PROXY=http://" + y.web.Addr().String(), "NO_PROXY=" + localNetworks, "CODEX_NETWORK_ALLOW_LOCAL_BINDING=1"} {
		if !slices.Contains(y.Environ(nil), kv) {
			t.Errorf("%s is missing", kv)
		}
	}
}

// TestWorks: on a machine that does not report the owner of a connection, no proxies are started.
func TestWorks(t *testing.T) {
	if err := NewHost(Options{}).Works(); err != nil {
		t.Error(err)
	}
	for name, user := range map[string]func(net.Conn) (int, error){
		"not known":    func(net.Conn) (int, error) { return 0, errors.New("not known") },
		"another user": func(net.Conn) (int, error) { return os.Geteuid() + 1, nil },
	} {
		if err := NewHost(Options{UserOf: user}).Works(); err == nil {
			t.Errorf("%s: there is no error", name)
		}
	}
}
