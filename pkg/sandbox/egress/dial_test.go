package egress

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

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
			t.Errorf(`got h %+v, error %v; want no error, h.Method+" "+h.RequestURI+" "+h.Proto: %v, h.Header.Get("Proxy-Authorization") "Basic bWU6c2VjcmV0"`, h, err, tt.want)
		}
		_, _ = io.WriteString(up, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup")
		if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 200 {
			t.Errorf("got resp %v, error %v; want no error, resp.StatusCode 200", resp, err)
		}
		_ = up.Close()
	}
	for host, want := range map[string]bool{"far.test": true, "near.test": false, "a.near.test": false, "localhost": false, "127.0.0.1": false, "10.1.2.3": false} {
		if got := x.upstream(Question{HTTP, host, 80}) != nil; got != want {
			t.Errorf("%s: got %v, want %v", host, got, want)
		}
	}
	x.host.opts.PrivateViaUpstream = true
	for host, want := range map[string]bool{"127.0.0.1": false, "10.1.2.3": true, "::1": false} {
		if got := x.upstream(Question{HTTP, host, 80}) != nil; got != want {
			t.Errorf("%s with private addresses upstream: %v", host, got)
		}
	}
}

// TestOwnPorts: whatever the policy allows, a proxy connects neither to a port of the server nor to
// a port of another process's proxy.
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
				t.Errorf("%s: got port %d, resp.Status %s, body %s; want resp.StatusCode %v, body with errOwnPort.Error()", name, port, resp.Status, body, http.StatusBadGateway)
			}
		}
	}
}

// mappedZero answers for mapped.test with the IPv6 spelling of 0.0.0.0. If asked
// to connect there, the kernel connects to the loopback address.
func mappedZero(ctx context.Context, name string) ([]netip.Addr, error) {
	if name == "mapped.test" {
		return []netip.Addr{netip.MustParseAddr("::ffff:0.0.0.0")}, nil
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// TestOwnPortUpstream: the proxy does not request a port of the server from an upstream proxy,
// which may resolve the name to another address than this machine does.
func TestOwnPortUpstream(t *testing.T) {
	env := map[string]string{"HTTP_PROXY": "http://127.0.0.1:1", "HTTPS_PROXY": "http://127.0.0.1:1"}
	config := local()
	config.Domains["*"], config.LocalBinding = Allow, true
	x := testProxy(t, Options{Getenv: func(name string) string { return env[name] }, OwnPort: func(port uint16) bool { return port == 4444 }}, config, Hooks{})
	for port, want := range map[uint16]bool{4444: false, 80: true} {
		if got := x.upstream(Question{HTTP, "far.test", port}) != nil; got != want {
			t.Errorf("%d: got %v, want %v", port, got, want)
		}
	}
}

// TestPinnedAddress: the name is resolved once, and the connection goes to that address.
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

// TestNextAddress: if an address refuses the connection, the next address is tried.
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
