package egress

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds waits that do not end in a defective program.
const patience = 20 * time.Second

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
	_ = conn.SetDeadline(time.Now().Add(patience))
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
		t.Fatalf("%q: %v", request, err)
	}
	if method == http.MethodConnect && resp.StatusCode == http.StatusOK {
		return resp, ""
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	return resp, string(text)
}

// web is a server that shows what it gets.
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
			t.Errorf("%q: %s %q", tt.request, resp.Status, body)
		}
		kind := resp.Header.Get("Content-Type")
		if resp.StatusCode == http.StatusForbidden && kind != "application/json" || resp.StatusCode == http.StatusBadRequest && kind != "text/plain" {
			t.Errorf("%q: %s", tt.request, kind)
		}
	}
}

// TestHeads: what is no request, or too large, is answered and ends the
// connection.
func TestHeads(t *testing.T) {
	server := webServer(t)
	x := testProxy(t, Options{}, local(), Hooks{})
	many := func(n, size int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "X%d: %s\r\n", i, strings.Repeat("x", size))
		}
		return b.String()
	}
	for name, tt := range map[string]struct{ request, status string }{
		"garbage":         {"\x16\x03\x01\r\n\r\n", "400"},
		"another version": {"GET / HTTP/2.0\r\n\r\n", "400"},
		"a folded header": {"GET http://" + server + "/ HTTP/1.1\r\nX: 1\r\n 2\r\n\r\n", "400"},
		"two lengths":     {"POST http://" + server + "/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "400"},
		"a hidden length": {"POST http://" + server + "/ HTTP/1.1\r\nContent-Length : 1\r\n\r\n", "400"},
		"100 headers":     {"GET http://" + server + "/ HTTP/1.1\r\n" + many(100, 1) + "\r\n", "431"},
		"a large header":  {"GET http://" + server + "/ HTTP/1.1\r\n" + many(1, 500_000) + "\r\n", "431"},
		"99 headers":      {"GET http://" + server + "/ HTTP/1.1\r\n" + many(99, 1) + "\r\n", "200"},
		"450 KB":          {"GET http://" + server + "/ HTTP/1.1\r\n" + many(50, 9000) + "\r\n", "200"},
	} {
		conn, r := wire(t, x.web)
		resp, body := exchange(t, conn, r, tt.request)
		if resp.Status[:3] != tt.status {
			t.Errorf("%s: %s", name, resp.Status)
		}
		if resp.StatusCode == http.StatusOK {
			continue
		}
		if _, err := r.ReadByte(); !errors.Is(err, io.EOF) || body != "" {
			t.Errorf("%s: %q, then %v", name, body, err)
		}
	}
}

// TestPipelining: each request of a packet is judged by itself.
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
		t.Errorf("%q", seen.all())
	}
}

// TestContinue: a body that the process holds back is asked for.
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
		t.Errorf("%s %q", resp.Status, body)
	}
}

// TestStreams: a part of an answer comes before the next one is made; an old
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
			t.Errorf("%q %v", rest, err)
		}
	}
}

// echo listens, and answers with what it got when that has ended.
func echo(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				text, _ := io.ReadAll(conn)
				_, _ = conn.Write(append([]byte("got "), text...))
			}()
		}
	}()
	return l
}

func TestTunnels(t *testing.T) {
	l := echo(t)
	x := testProxy(t, Options{}, local(), Hooks{})
	for _, name := range []string{"localhost", "127.0.0.1"} {
		target := fmt.Sprintf("%s:%d", name, portOf(l))
		conn, r := wire(t, x.web)
		// What follows in the same packet is not lost, and the Host header ignored.
		resp, _ := exchange(t, conn, r, "CONNECT "+target+" HTTP/1.1\r\nHost: other.test\r\n\r\nearly ")
		if resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
		_, _ = io.WriteString(conn, "late")
		_ = conn.(*net.TCPConn).CloseWrite()
		if text, err := io.ReadAll(r); err != nil || string(text) != "got early late" {
			t.Errorf("%q %v", text, err)
		}
	}
}

func TestRefusedTunnels(t *testing.T) {
	var seen reports
	x := testProxy(t, Options{}, local(), Hooks{Report: seen.add})
	conn, r := wire(t, x.web)
	for _, tt := range []struct {
		target string
		status int
		code   string
		text   string
	}{
		{"other.test", 403, "blocked-by-allowlist", "Domain not in allowlist."},
		{"denied.test:443", 403, "blocked-by-denylist", "Domain denied by the sandbox policy."},
		{"[::1]:443", 403, "blocked-by-allowlist", "Sandbox policy blocks local/private network addresses."},
		{"localhost:1", 502, "", "connect to localhost:1: dial tcp 127.0.0.1:1: connect: connection refused"},
	} {
		resp, body := exchange(t, conn, r, "CONNECT "+tt.target+" HTTP/1.1\r\n\r\n")
		if resp.StatusCode != tt.status || resp.Header.Get("X-Proxy-Error") != tt.code || body != tt.text || resp.Header.Get("Content-Type") != "text/plain" {
			t.Errorf("%s: %v %q", tt.target, resp, body)
		}
	}
	if want := "true deny baseline_policy not_allowed https_connect other.test CONNECT"; seen.all()[0] != want {
		t.Errorf("%q", seen.all())
	}
}

// TestLimitedMode: plain reading only.
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
		t.Errorf("%q", seen.all())
	}
}

// socksAsk encodes a request for a name.
func socksAsk(command byte, name string, port uint16) []byte {
	b := append([]byte{5, command, 0, socksName, byte(len(name))}, name...)
	return binary.BigEndian.AppendUint16(b, port)
}

func TestSOCKS(t *testing.T) {
	l := echo(t)
	port := portOf(l)
	limited := local()
	limited.Limited = true
	free, guarded := testProxy(t, Options{}, local(), Hooks{}), testProxy(t, Options{}, limited, Hooks{})
	for _, tt := range []struct {
		name    string
		proxy   *Proxy
		hello   string
		request []byte
		want    string // a prefix
		tunnel  bool
	}{
		{"by name", free, "\x05\x01\x00", socksAsk(1, "localhost", port), "\x05\x00\x05\x00\x00\x01\x7f\x00\x00\x01", true},
		{"by address", free, "\x05\x02\x02\x00", binary.BigEndian.AppendUint16([]byte{5, 1, 0, 1, 127, 0, 0, 1}, port), "\x05\x00\x05\x00\x00\x01", true},
		{"refused", free, "\x05\x01\x00", socksAsk(1, "other.test", 80), "\x05\x00\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00", false},
		{"not reachable", free, "\x05\x01\x00", socksAsk(1, "localhost", 1), "\x05\x00\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00", false},
		{"bind", free, "\x05\x01\x00", socksAsk(2, "localhost", port), "\x05\x00\x05\x07\x00\x01\x00\x00\x00\x00\x00\x00", false},
		{"datagrams", free, "\x05\x01\x00", socksAsk(3, "localhost", 0), "\x05\x00\x05\x07\x00\x01\x00\x00\x00\x00\x00\x00", false},
		{"a password", free, "\x05\x01\x02", nil, "\x05\xff", false},
		{"version 4", free, "\x04\x01\x00\x50", nil, "", false},
		{"an empty name", free, "\x05\x01\x00", socksAsk(1, "", 80), "\x05\x00", false},
		{"an unknown kind", free, "\x05\x01\x00", []byte{5, 1, 0, 9, 1, 1, 1, 1}, "\x05\x00", false},
		{"limited, another port", guarded, "\x05\x01\x00", socksAsk(1, "localhost", port), "\x05\x00\x05\x02", false},
		{"limited, TLS", guarded, "\x05\x01\x00", socksAsk(1, "localhost", 443), "\x05\x00\x05\x02", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn, r := wire(t, tt.proxy.socks)
			_, _ = conn.Write(append([]byte(tt.hello), tt.request...))
			if tt.tunnel {
				_, _ = io.WriteString(conn, "hello")
			}
			_ = conn.(*net.TCPConn).CloseWrite()
			got, err := io.ReadAll(r)
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && len(got) == 0 && tt.want != "" {
				t.Fatal(err)
			}
			if !bytes.HasPrefix(got, []byte(tt.want)) || bytes.HasSuffix(got, []byte("got hello")) != tt.tunnel {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestUpstreamProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	env := map[string]string{"HTTP_PROXY": "me:secret@" + l.Addr().String(), "HTTPS_PROXY": "socks5h://other.test:1", "NO_PROXY": "near.test"}
	config := local()
	config.Domains["*"], config.LocalBinding = Allow, true
	x := testProxy(t, Options{Getenv: func(name string) string { return env[name] }}, config, Hooks{})
	for _, tt := range []struct{ request, want string }{
		{"GET http://far.test:81//x?y HTTP/1.1\r\n\r\n", "GET http://far.test:81//x?y HTTP/1.1"},
		{"CONNECT far.test:443 HTTP/1.1\r\n\r\n", "CONNECT far.test:443 HTTP/1.1"},
	} {
		conn, r := wire(t, x.web)
		_, _ = io.WriteString(conn, tt.request)
		up, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		h, err := readHead(bufio.NewReader(up), anyHead())
		if err != nil || h.Method+" "+h.RequestURI+" "+h.Proto != tt.want || h.Header.Get("Proxy-Authorization") != "Basic bWU6c2VjcmV0" {
			t.Errorf("%+v %v", h, err)
		}
		_, _ = io.WriteString(up, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup")
		if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 200 {
			t.Errorf("%v %v", resp, err)
		}
		_ = up.Close()
	}
	for host, want := range map[string]bool{"far.test": true, "near.test": false, "a.near.test": false, "localhost": false, "127.0.0.1": false, "10.1.2.3": false} {
		if got := x.upstream(Question{HTTP, host, 80}) != nil; got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
	x.host.opts.PrivateViaUpstream = true
	for host, want := range map[string]bool{"127.0.0.1": false, "10.1.2.3": true, "::1": false} {
		if got := x.upstream(Question{HTTP, host, 80}) != nil; got != want {
			t.Errorf("%s with private addresses upstream: %v", host, got)
		}
	}
}

// TestOwnPorts: neither a port of the server nor that of another process's proxy
// is reached through a proxy, whatever the policy says.
func TestOwnPorts(t *testing.T) {
	l := echo(t)
	config := Config{LocalBinding: true, Domains: map[string]Permission{"*": Allow}}
	x := testProxy(t, Options{OwnPort: func(port uint16) bool { return port == portOf(l) }}, config, Hooks{})
	conn, r := wire(t, x.web)
	x.host.opts.Resolve = mappedZero
	for _, name := range []string{"localhost", "127.0.0.1", "127.9.9.9", "[::ffff:127.0.0.1]", "0.0.0.0", "mapped.test"} {
		for _, port := range []uint16{portOf(l), portOf(x.web)} {
			resp, body := exchange(t, conn, r, fmt.Sprintf("CONNECT %s:%d HTTP/1.1\r\n\r\n", name, port))
			if resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, errOwnPort.Error()) {
				t.Errorf("%s:%d: %s %s", name, port, resp.Status, body)
			}
		}
	}
}

// mappedZero answers for mapped.test with the IPv6 spelling of 0.0.0.0, to which
// the kernel connects as to the loopback address.
func mappedZero(ctx context.Context, name string) ([]netip.Addr, error) {
	if name == "mapped.test" {
		return []netip.Addr{netip.MustParseAddr("::ffff:0.0.0.0")}, nil
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// TestOwnPortUpstream: a port of the server is not asked of an upstream proxy,
// which may find another address for the name than this machine does.
func TestOwnPortUpstream(t *testing.T) {
	env := map[string]string{"HTTP_PROXY": "http://127.0.0.1:1", "HTTPS_PROXY": "http://127.0.0.1:1"}
	config := local()
	config.Domains["*"], config.LocalBinding = Allow, true
	x := testProxy(t, Options{Getenv: func(name string) string { return env[name] }, OwnPort: func(port uint16) bool { return port == 4444 }}, config, Hooks{})
	for port, want := range map[uint16]bool{4444: false, 80: true} {
		if got := x.upstream(Question{HTTP, "far.test", port}) != nil; got != want {
			t.Errorf("%d: %v", port, got)
		}
	}
}

// TestTargetsThatAreNoPath: what is neither a URI nor a path would become a part
// of the host in front of an upstream proxy.
func TestTargetsThatAreNoPath(t *testing.T) {
	for request, want := range map[string]error{
		"GET x.evil.org:80/p":       errNoHost,
		"GET x:y@169.254.169.254/p": errNoHost,
		"GET *":                     errNoHost,
		"OPTIONS *":                 nil,
		"GET /p?q":                  nil,
		"GET http://a.test/p":       nil,
	} {
		h, err := readHead(bufio.NewReader(strings.NewReader(request+" HTTP/1.1\r\nHost: a.test\r\n\r\n")), anyHead())
		if err != nil {
			t.Fatal(request, err)
		}
		if _, err := h.target(); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", request, err, want)
		}
	}
}

// TestPinnedAddress: the name is resolved once, and that address connected to.
func TestPinnedAddress(t *testing.T) {
	l := echo(t)
	looked := 0
	resolve := func(context.Context, string) ([]netip.Addr, error) {
		looked++
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	config := Config{LocalBinding: true, Domains: map[string]Permission{"*": Allow}}
	x := testProxy(t, Options{Resolve: resolve}, config, Hooks{})
	conn, r := wire(t, x.web)
	resp, _ := exchange(t, conn, r, fmt.Sprintf("CONNECT rebinding.test:%d HTTP/1.1\r\n\r\n", portOf(l)))
	if resp.StatusCode != http.StatusOK || looked != 1 {
		t.Errorf("%s after %d look-ups", resp.Status, looked)
	}
}

// TestNextAddress: an address that refuses does not keep the next one from being
// tried.
func TestNextAddress(t *testing.T) {
	l := echo(t)
	x := testProxy(t, Options{}, local(), Hooks{})
	conn, err := x.dial(t.Context(), route{port: portOf(l), addresses: []netip.Addr{
		netip.MustParseAddr("127.0.0.99"), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.98"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

// TestCloseWaitsForNoAnswer: Close returns while a name, a question, a tunnel
// and an answer are waited for, and cuts every connection.
func TestCloseWaitsForNoAnswer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	begun := make(chan struct{}, 2)
	resolve := func(ctx context.Context, _ string) ([]netip.Addr, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ask := func(ctx context.Context, _ Question) Answer {
		begun <- struct{}{}
		<-ctx.Done()
		return Answer{}
	}
	config := local()
	config.AskTime, config.Domains["slow.test"] = time.Hour, Allow
	x := testProxy(t, Options{Resolve: resolve}, config, Hooks{Ask: ask})
	var conns []net.Conn
	for _, request := range []string{
		"GET http://slow.test/ HTTP/1.1\r\n\r\n", "GET http://asked.test/ HTTP/1.1\r\n\r\n",
		fmt.Sprintf("CONNECT localhost:%d HTTP/1.1\r\n\r\n", portOf(silent)),
		fmt.Sprintf("POST http://localhost:%d/ HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc", portOf(silent)),
	} {
		conn, _ := wire(t, x.web)
		_, _ = io.WriteString(conn, request)
		conns = append(conns, conn)
	}
	for range 2 {
		<-begun
		conn, err := silent.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	x.Close()
	for i, conn := range conns {
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection %d is open", i)
		}
	}
	for _, l := range []net.Listener{x.web, x.socks} {
		if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
			_ = conn.Close()
			t.Errorf("%v accepts after Close", l.Addr())
		}
	}
}

// TestConnectionLimit: one connection too many is told so.
func TestConnectionLimit(t *testing.T) {
	x := testProxy(t, Options{Connections: 1}, local(), Hooks{})
	first, r := wire(t, x.web)
	exchange(t, first, r, "GET http://other.test/ HTTP/1.1\r\n\r\n")
	second, r2 := wire(t, x.web)
	if resp, body := exchange(t, second, r2, ""); resp.StatusCode != http.StatusServiceUnavailable || body == "" {
		t.Errorf("%s %q", resp.Status, body)
	}
	_ = first.Close()
}

// TestHangUp: nothing is done for a client that hung up while it was asked about.
func TestHangUp(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	config := local()
	config.AskTime = time.Hour
	var seen reports
	x := testProxy(t, Options{}, config, Hooks{Report: seen.add, Ask: func(context.Context, Question) Answer {
		asked <- struct{}{}
		<-answer
		return Answer{Verdict: Pass}
	}})
	conn, _ := wire(t, x.web)
	_, _ = io.WriteString(conn, "GET http://asked.test/ HTTP/1.1\r\n\r\n")
	<-asked
	_ = conn.Close()
	close(answer)
	x.Close()
	if len(seen.all()) > 0 {
		t.Errorf("%q", seen.all())
	}
}

func TestEnviron(t *testing.T) {
	x := testProxy(t, Options{}, local(), Hooks{})
	env := x.Environ([]string{"PATH=/bin", "HTTP_PROXY=http://corp:1", "no_proxy=a.b", "RSYNC_PROXY=r", "CODEX_NETWORK_PROXY_ATTRIBUTION=x",
		"Http_Proxy=http://corp:1", "nO_pROXY=*"})
	if len(env) != 2+34 || env[0] != "PATH=/bin" || env[1] != "RSYNC_PROXY=r" {
		t.Errorf("%d %q", len(env), env)
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

// FuzzHead: a head that is accepted has a target in normal form, and what is sent
// on is one request that net/http reads in the same way.
func FuzzHead(f *testing.F) {
	for _, text := range []string{
		"GET http://a.test/x HTTP/1.1\r\nHost: a.test\r\n\r\n", "CONNECT [::1]:1 HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\nHost: b\n\n",
		"POST //x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "0 //\" HTTP/1.0\nHost:0\n\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := readHead(bufio.NewReader(strings.NewReader(text)), anyHead())
		if err != nil {
			return
		}
		to, err := h.target()
		if err != nil {
			return
		}
		if host, ok := normalHost(to.host); !ok || host != to.host {
			t.Fatalf("%q: host %q", text, to.host)
		}
		if h.Method == http.MethodConnect || to.tls {
			return
		}
		var sent bytes.Buffer
		if h.outgoing(to, route{}).Write(&sent) != nil {
			return // the transport refuses it
		}
		again, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(sent.Bytes())))
		if err != nil {
			return
		}
		// A path that begins as a host does may become a whole URI: see outgoing.
		if uri := again.RequestURI; uri != to.path && (!strings.HasPrefix(to.path, "//") || uri != "http://"+to.header+to.path) {
			t.Fatalf("%q becomes %q", text, sent.String())
		}
	})
}

// FuzzSOCKS: a request that is accepted names a host in normal form.
func FuzzSOCKS(f *testing.F) {
	f.Add(socksAsk(1, "a.test", 80))
	f.Add([]byte{5, 1, 0, 1, 127, 0, 0, 1, 0, 80})
	f.Add([]byte{5, 3, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 1, 2, 3, 4, 0, 80})
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = socksHello(bufio.NewReader(bytes.NewReader(data)))
		_, host, _, err := socksRequest(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			return
		}
		if again, ok := normalHost(host); !ok || again != host {
			t.Fatalf("%q: %q", data, host)
		}
	})
}

// anyHead counts a head that always gets a slot.
func anyHead() *headSize { return &headSize{admit: func() bool { return true }} }

// TestLargeHeadsAreBounded: heads that a process does not finish do not take
// maxHead bytes for each of its connections.
func TestLargeHeadsAreBounded(t *testing.T) {
	x := testProxy(t, Options{}, local(), Hooks{})
	host := x.host
	open := make([]net.Conn, 0, maxLargeHeads)
	large := "GET http://localhost:1/ HTTP/1.1\r\nX: " + strings.Repeat("x", smallHead)
	for range maxLargeHeads {
		conn, _ := wire(t, x.web)
		if _, err := io.WriteString(conn, large); err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	await(t, func() bool { return len(host.heads) == maxLargeHeads })
	conn, r := wire(t, x.web)
	if resp, _ := exchange(t, conn, r, large); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one head too many: %s", resp.Status)
	}
	conn, r = wire(t, x.web)
	if resp, _ := exchange(t, conn, r, large[:smallHead/2]+"\r\n\r\n"); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("a small head: %s", resp.Status)
	}
	_ = open[0].Close()
	await(t, func() bool { return len(x.heads) < maxLargeHeads }) // which is the last to be released
	conn, r = wire(t, x.web)
	if resp, _ := exchange(t, conn, r, large+"\r\n\r\n"); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("after one has ended: %s", resp.Status)
	}
	// The answer comes before its slot is free.
	await(t, func() bool { return len(x.heads) < maxLargeHeads })
	for range maxAllLargeHeads {
		host.heads <- struct{}{}
		if len(host.heads) == maxAllLargeHeads {
			break
		}
	}
	conn, r = wire(t, x.web)
	if resp, _ := exchange(t, conn, r, large); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("other processes have all slots: %s", resp.Status)
	}
}

// await waits until a condition holds that no event tells of.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not happen")
		}
	}
}

// TestHalfClosedClients: a client that sends no more still waits for its answer,
// also if somebody had to be asked.
func TestHalfClosedClients(t *testing.T) {
	server := echo(t)
	port := uint16(server.Addr().(*net.TCPAddr).Port)
	config := local()
	config.Domains, config.AskTime, config.LocalBinding = nil, time.Minute, true
	ends := make(chan struct{})
	x := testProxy(t, Options{}, config, Hooks{Ask: func(ctx context.Context, _ Question) Answer {
		select {
		case <-ends:
			return Answer{Verdict: Pass}
		case <-ctx.Done():
			return Answer{}
		}
	}})
	conn, r := wire(t, x.socks)
	request := append([]byte{socksVersion, 1, socksNoAuth}, socksAsk(socksConnect, "localhost", port)...)
	if _, err := conn.Write(append(request, "hello"...)); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	close(ends)
	answer, err := io.ReadAll(r)
	if err != nil || len(answer) != 2+10+9 || answer[3] != socksDone || string(answer[12:]) != "got hello" {
		t.Errorf("got %q, %v", answer, err)
	}
}

// TestWorks: a machine that does not say whose a connection is has no proxies.
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
