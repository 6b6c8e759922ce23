package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/pkg/sandbox/transparent"
	"golang.org/x/net/dns/dnsmessage"
)

// launcherEnd is the launcher's end of the socket to a proxy.
type launcherEnd struct {
	t *testing.T
	*net.UnixConn
}

func redirectTo(t *testing.T, x *Proxy) launcherEnd {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Redirect(os.NewFile(uintptr(pair[0]), "server")); err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(pair[1]), "launcher")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return launcherEnd{t, conn.(*net.UnixConn)}
}

func (l launcherEnd) send(text []byte, conn interface{ File() (*os.File, error) }) {
	l.t.Helper()
	f, err := conn.File()
	if err != nil {
		l.t.Fatal(err)
	}
	defer f.Close()
	if _, _, err := l.WriteMsgUnix(text, syscall.UnixRights(int(f.Fd())), nil); err != nil {
		l.t.Fatal(err)
	}
}

// connect makes a connection of the process to an address, and returns its end.
func (l launcherEnd) connect(to string) net.Conn {
	l.t.Helper()
	address := netip.MustParseAddrPort(to)
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		l.t.Fatal(err)
	}
	defer listener.Close()
	inside, _ := wire(l.t, listener)
	far, err := listener.Accept()
	if err != nil {
		l.t.Fatal(err)
	}
	defer far.Close()
	m := transparent.Message{Kind: transparent.Connection, Address: address.Addr().As16(), Port: address.Port()}
	l.send(m.Append(nil), far.(*net.TCPConn))
	return inside
}

// echoServer echoes the data of each connection.
func echoServer(t *testing.T) uint16 {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
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
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return portOf(l)
}

// TestRedirectedConnections: an address from a DNS answer stands for its name, and any other
// address for itself. The proxy sends a refusal in the protocol of the port.
func TestRedirectedConnections(t *testing.T) {
	port := echoServer(t)
	seen := &reports{}
	x := testProxy(t, Options{Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
		if name == "a.test" {
			return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
		}
		return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
	}}, Config{LocalBinding: true, Domains: map[string]Permission{"a.test": Allow, "127.0.0.1": Allow}}, Hooks{Report: seen.add})
	l := redirectTo(t, x)
	if got := told(t, x.answerNames(dnsQuery(t, "a.test.", dnsmessage.TypeA, false))); got != "Success [198 18 0 1]" {
		t.Fatalf(`got %v, want "Success [198 18 0 1]"`, got)
	}
	for _, host := range []string{"198.18.0.1", "[::ffff:198.18.0.1]", "[fd9c:4e1b:a367::c612:1]", "127.0.0.1"} {
		conn := l.connect(host + ":" + strconv.Itoa(int(port)))
		if _, err := conn.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		_ = conn.(*net.TCPConn).CloseWrite()
		if text, err := io.ReadAll(conn); string(text) != "hello" || err != nil {
			t.Errorf(`%s: got text %q, error %v; want text "hello", no error`, host, text, err)
		}
	}
	const alert = "\x15\x03\x03\x00\x02\x02\x31"
	request := []byte("GET / HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n")
	for _, tt := range []struct {
		to   string
		sent []byte
		want string
	}{
		{"198.18.0.2:22", nil, "Sandbox policy blocks local/private network addresses."}, // no name
		{"93.184.216.34:22", nil, "Domain not in allowlist."},
		{"93.184.216.34:80", request, "HTTP/1.1 403 Forbidden\r\n"},
		{"93.184.216.34:443", helloOf(t, &tls.Config{ServerName: "b.test"}), alert},
		{"[2606:4700::1]:443", helloOf(t, &tls.Config{InsecureSkipVerify: true}), alert},
		{"93.184.216.34:443", request, alert},
	} {
		conn := l.connect(tt.to)
		if _, err := conn.Write(tt.sent); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(conn)
		if !strings.Contains(string(text), tt.want) || err != nil {
			t.Errorf("%s: got text %q, error %v; want text with %q, no error", tt.to, text, err, tt.want)
		}
	}
	for _, to := range []string{"93.184.216.34:5432", "198.18.0.1:1", "169.254.169.254:8080"} {
		if text, err := io.ReadAll(l.connect(to)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: got text %q, error %v; want error %v", to, text, err, syscall.ECONNRESET)
		}
	}
	if got := strings.Join(seen.all(), "\n"); !strings.Contains(got, "allow baseline_policy allow socks5_tcp a.test") ||
		!strings.Contains(got, "deny baseline_policy not_allowed socks5_tcp 169.254.169.254") {
		t.Errorf("reported:\n%s", got)
	}
}

// upstreamProxy is an upstream proxy for tunnels. It answers instead of the host, with the target
// and the data that it received. It returns its URL.
func upstreamProxy(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			fmt.Fprintf(w, "plain %s", r.RequestURI)
			return
		}
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\ntunnel "+r.RequestURI+" ")
		_, _ = io.Copy(conn, rw)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestNamesWithinConnections: the host of a connection to an address is the name that TLS and HTTP
// clients send. The proxy ignores the address: it gives the name to the upstream proxy, or resolves
// it.
func TestNamesWithinConnections(t *testing.T) {
	proxy := upstreamProxy(t)
	getenv := func(name string) string {
		if name == "HTTPS_PROXY" || name == "HTTP_PROXY" {
			return proxy
		}
		return ""
	}
	x := testProxy(t, Options{Getenv: getenv, Resolve: func(context.Context, string) ([]netip.Addr, error) {
		return nil, errors.New("no such host")
	}}, Config{Upstream: true, Domains: map[string]Permission{"a.test": Allow, "93.184.216.35": Allow}}, Hooks{})
	l := redirectTo(t, x)
	if got := told(t, x.answerNames(dnsQuery(t, "a.test.", dnsmessage.TypeA, false))); got != "Success [198 18 0 1]" {
		t.Fatalf(`got %v, want "Success [198 18 0 1]"`, got)
	}
	hello := string(helloOf(t, &tls.Config{ServerName: "a.test"}))
	foreign := string(helloOf(t, &tls.Config{ServerName: "b.test"}))
	request := "GET /x HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
	for _, tt := range []struct{ to, sent, want string }{
		{"93.184.216.34:443", hello, "tunnel a.test:443 " + hello},
		{"169.254.169.254:443", hello, "tunnel a.test:443 " + hello},
		{"198.18.0.1:443", foreign, "tunnel a.test:443 " + foreign},           // by the name that DNS was asked for
		{"93.184.216.35:443", foreign, "tunnel 93.184.216.35:443 " + foreign}, // an entry names it
		{"93.184.216.34:80", request, "plain http://a.test/x"},
		{"198.18.0.1:80", request, "plain http://a.test/x"},
		{"93.184.216.35:80", request, "tunnel 93.184.216.35:80 " + request},
		{"198.18.0.1:22", "SSH-2.0-x\r\n", "tunnel a.test:22 SSH-2.0-x\r\n"},
	} {
		conn := l.connect(tt.to)
		if _, err := io.WriteString(conn, tt.sent); err != nil {
			t.Fatal(err)
		}
		_ = conn.(*net.TCPConn).CloseWrite()
		if text, err := io.ReadAll(conn); !strings.HasSuffix(string(text), tt.want) || err != nil {
			t.Errorf("%s: %q %v, want %q", tt.to, text, err, tt.want)
		}
	}
}

// TestRedirectedQueries: queries arrive over UDP and over connections to port 53.
func TestRedirectedQueries(t *testing.T) {
	x := testProxy(t, Options{}, Config{Domains: map[string]Permission{"a.test": Allow}}, Hooks{})
	l := redirectTo(t, x)
	server, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	l.send(transparent.Message{Kind: transparent.Names}.Append(nil), server)
	client, err := net.DialUDP("udp4", nil, server.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_ = client.SetDeadline(time.Now().Add(testTimeout))
	query := dnsQuery(t, "a.test.", dnsmessage.TypeA, true)
	answer := make([]byte, 600)
	// A message that is too long, or is not a query, gets no answer. Later queries are still
	// answered.
	for _, b := range [][]byte{make([]byte, maxQuery+1), []byte("x"), query} {
		if _, err := client.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	n, err := client.Read(answer)
	if err != nil || told(t, answer[:n]) != "Success [198 18 0 1]" {
		t.Errorf("by UDP: %x %v", answer[:n], err)
	}
	conn := l.connect("8.8.8.8:53")
	framed := append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)
	if _, err := conn.Write(append(framed, framed...)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := io.ReadFull(conn, answer[:2]); err != nil {
			t.Fatal(err)
		}
		n := binary.BigEndian.Uint16(answer)
		if _, err := io.ReadFull(conn, answer[:n]); err != nil || told(t, answer[:n]) != "Success [198 18 0 1]" {
			t.Errorf("by TCP: %x %v", answer[:n], err)
		}
	}
	if _, err := conn.Write(binary.BigEndian.AppendUint16(nil, maxQuery+1)); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(conn); len(text) > 0 || err != nil {
		t.Errorf("a query that is too long: %q %v", text, err)
	}
}

// TestRedirectEnds: Close ends all connections and queries that arrived over the socket. A
// malformed message does not end anything, and a connection beyond the limit is reset.
func TestRedirectEnds(t *testing.T) {
	x := testProxy(t, Options{Connections: 1}, local(), Hooks{})
	l := redirectTo(t, x)
	junk, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer junk.Close()
	l.send([]byte("x"), junk)
	l.send(transparent.Message{Kind: transparent.Connection}.Append(nil), junk)
	first := l.connect("8.8.8.8:53")
	if text, err := io.ReadAll(l.connect("8.8.8.8:53")); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("one connection too many: %q %v", text, err)
	}
	x.Close()
	if _, err := io.ReadAll(first); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after the end: %v", err)
	}
	if n, _ := l.Read(make([]byte, 1)); n != 0 {
		t.Error("the socket is open")
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pair[1])
	if err := x.Redirect(os.NewFile(uintptr(pair[0]), "late")); err == nil {
		t.Error("a closed proxy takes a socket")
	}
}

// TestBrokenConnections: if a process breaks a connection before the server accepts it, only this
// connection ends.
func TestBrokenConnections(t *testing.T) {
	for _, limited := range []bool{false, true} {
		x := testProxy(t, Options{}, Config{Limited: limited}, Hooks{})
		l := redirectTo(t, x)
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		inside, _ := wire(t, listener)
		far, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		_ = inside.(*net.TCPConn).SetLinger(0)
		_ = inside.Close()
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Fatal(err)
		}
		to := netip.MustParseAddr("93.184.216.34")
		for _, port := range []uint16{portHTTP, portTLS} {
			l.send(transparent.Message{Kind: transparent.Connection, Address: to.As16(), Port: port}.Append(nil), far.(*net.TCPConn))
		}
		if text, err := io.ReadAll(l.connect("93.184.216.34:22")); len(text) == 0 || err != nil {
			t.Errorf("the next connection: %q %v", text, err)
		}
		x.Close() // waits for those before
	}
}

// TestLimitedModeWithoutProxy: a plain request that bypasses the proxy is judged like one to the
// HTTP proxy.
func TestLimitedModeWithoutProxy(t *testing.T) {
	x := testProxy(t, Options{}, Config{Limited: true, Domains: map[string]Permission{"a.test": Allow}}, Hooks{})
	l := redirectTo(t, x)
	conn := l.connect("93.184.216.34:80")
	if _, err := io.WriteString(conn, "POST / HTTP/1.0\r\nHost: b.test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(conn); !bytes.Contains(text, []byte(`"host":"b.test"`)) || err != nil {
		t.Errorf("%q: got error %v, want no error", text, err)
	}
}

// TestDisconnectSSH: the message is a valid packet of RFC 4253, section 6.
func TestDisconnectSSH(t *testing.T) {
	for _, text := range []string{"", "a", "Domain not in allowlist.", strings.Repeat("x", 100)} {
		version, b, found := bytes.Cut(disconnectSSH(text), []byte("\r\n"))
		if !found || string(version) != "SSH-2.0-codex" || len(b)%8 != 0 {
			t.Fatalf(`got version %q, b %x; want found true, version "SSH-2.0-codex", len(b)%%8: 0`, version, b)
		}
		size, padding := binary.BigEndian.Uint32(b), int(b[4])
		payload := b[5 : len(b)-padding]
		if int(size) != len(b)-4 || padding < 4 || payload[0] != 1 || string(payload[9:9+len(text)]) != text || len(payload) != 13+len(text) {
			t.Errorf("%q: got %x; want int(size) %v, padding at least 4, payload[0] 1, payload[9:9+len(text)] %q, len(payload) %v", text, b, len(b)-4, text, 13+len(text))
		}
	}
}

// TestAddressesThatStandForNames: if a client resolves a name and then requests the returned
// address from a proxy, it reaches the host of the name. The proxy connects to no other address of
// these networks, whatever the policy allows: outside of this machine these addresses belong to
// other hosts.
func TestAddressesThatStandForNames(t *testing.T) {
	port := echoServer(t)
	x := testProxy(t, Options{Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	}}, Config{SOCKS5: true, LocalBinding: true, Domains: map[string]Permission{"*": Allow, "198.18.0.7": Allow}}, Hooks{})
	for _, host := range []string{"198.18.0.1", "fd9c:4e1b:a367::c612:1"} {
		if d := x.decide(t.Context(), Question{SOCKS, host, port}, false); d.verdict != Pass {
			t.Errorf("%s without names: %+v", host, d)
		}
	}
	redirectTo(t, x)
	x.names.ipv6.Store(true)
	if got := told(t, x.answerNames(dnsQuery(t, "a.test.", dnsmessage.TypeAAAA, false))); got != "Success fd9c:4e1b:a367::c612:1" {
		t.Fatalf(`got %v, want "Success fd9c:4e1b:a367::c612:1"`, got)
	}
	for host, want := range map[string]bool{
		"198.18.0.1": true, "fd9c:4e1b:a367::c612:1": true, "::ffff:198.18.0.1": true, "198.18.0.2": false, "198.19.255.255": false,
		"fd9c:4e1b:a367::c612:2": false, "fd9c:4e1b:a367::1": false,
	} {
		for i, l := range []net.Listener{x.socks, x.web} {
			conn, r := wire(t, l)
			address := net.JoinHostPort(host, strconv.Itoa(int(port)))
			request := []byte("CONNECT " + address + " HTTP/1.1\r\nHost: " + address + "\r\n\r\n")
			if i == 0 {
				six := netip.MustParseAddr(host).As16()
				request = append(append([]byte{socksVersion, 1, socksNoAuth, socksVersion, socksConnect, 0, socksIPv6}, six[:]...), byte(port>>8), byte(port))
			}
			if _, err := conn.Write(request); err != nil {
				t.Fatal(err)
			}
			answer := make([]byte, len("HTTP/1.1 200"))
			if _, err := io.ReadFull(r, answer); err != nil {
				t.Fatal(err)
			}
			done := string(answer[:4]) == "\x05\x00\x05\x00" || strings.HasSuffix(string(answer), "200")
			if done != want {
				t.Errorf("%s by %s: %q", host, []string{"SOCKS5", "HTTP"}[i], answer)
			}
		}
	}
	if d := x.decide(t.Context(), Question{SOCKS, "198.18.0.7", port}, false); d.verdict != Pass {
		t.Errorf("an address that an entry names: %+v", d)
	}
}

// TestTCPUpstream: with a mandatory upstream proxy, connections by SOCKS5, and those that do not know the proxy, go through it by name
// or not at all. The policy decides first.
func TestTCPUpstream(t *testing.T) {
	via, err := ParseTCPUpstream(strings.TrimPrefix(upstreamProxy(t), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	var looked []string
	opts := Options{TCPUpstream: via, Resolve: names(&looked)}
	config := Config{SOCKS5: true, Upstream: true, Domains: map[string]Permission{"*": Allow, "denied.test": Deny}}
	strict := testProxy(t, opts, config, Hooks{})
	config.LocalBinding = true
	free := testProxy(t, opts, config, Hooks{})
	config.Upstream = false
	forbidden := testProxy(t, opts, config, Hooks{})
	address := []byte{5, 1, 0, socksIPv4, 8, 8, 8, 8, 0, 80}
	for _, tt := range []struct {
		name    string
		proxy   *Proxy
		request []byte
		want    byte
	}{
		{"a public name", strict, socksAsk(1, "public.test", 80), socksDone},
		{"a name that resolves nowhere", free, socksAsk(1, "far.test", 80), socksDone},
		{"the same, where addresses count", strict, socksAsk(1, "far.test", 80), socksRefused},
		{"a private address", strict, socksAsk(1, "mixed.test", 80), socksRefused},
		{"a denied name", free, socksAsk(1, "denied.test", 80), socksRefused},
		{"a number", free, socksAsk(1, "2852039166", 80), socksRefused},
		{"an address", free, address, socksUnreachable},
		{"this machine", free, socksAsk(1, "localhost", 80), socksUnreachable},
		{"a policy without upstream proxies", forbidden, socksAsk(1, "public.test", 80), socksUnreachable},
	} {
		conn, r := wire(t, tt.proxy.socks)
		if _, err := conn.Write(append([]byte("\x05\x01\x00"), tt.request...)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 12)
		if _, err := io.ReadFull(r, got); err != nil || got[3] != tt.want {
			t.Errorf("%s: got the answer %x, error %v; want reply %d", tt.name, got, err, tt.want)
		}
		if tt.want != socksDone {
			continue
		}
		want := "tunnel " + string(tt.request[5:5+tt.request[4]]) + ":80 "
		text := make([]byte, len(want))
		if _, err := io.ReadFull(r, text); err != nil || string(text) != want || !bytes.Equal(got[6:], make([]byte, 6)) {
			t.Errorf("%s: got the address %x, the text %q, error %v; want zeros and %q", tt.name, got[6:], text, err, want)
		}
	}
	l := redirectTo(t, free)
	for _, tt := range []struct{ to, want string }{{"8.8.8.8:22", ""}, {"8.8.8.8:80", ""}} {
		conn := l.connect(tt.to)
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: public.test\r\n\r\n")
		// The end is a reset if the request was not read yet.
		if text, err := io.ReadAll(conn); string(text) != tt.want {
			t.Errorf("%s: got %q, error %v; want the end without an answer", tt.to, text, err)
		}
	}
	for _, text := range []string{"nohost", "127.0.0.1:0", "http://127.0.0.1:8", "u@a.test:8", ":80", "a.test:+8", "a.test:65536"} {
		if _, err := ParseTCPUpstream(text); err == nil {
			t.Errorf("%s: got no error", text)
		}
	}
	if u, err := ParseTCPUpstream("[::1]:80"); err != nil || u.Host != "[::1]:80" {
		t.Errorf("got %v, %v; want [::1]:80", u, err)
	}
}
