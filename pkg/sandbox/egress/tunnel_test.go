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
	"net/netip"
	"os"
	"testing"
	"time"
)

// echo returns a listener that collects the data of each connection, and sends it back when the
// sender has ended.
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
		// Bytes that follow the head in the same packet are not lost, and the Host header is
		// ignored.
		resp, _ := exchange(t, conn, r, "CONNECT "+target+" HTTP/1.1\r\nHost: other.test\r\n\r\nearly ")
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("got %v, want resp.StatusCode %v", resp.Status, http.StatusOK)
		}
		_, _ = io.WriteString(conn, "late")
		_ = conn.(*net.TCPConn).CloseWrite()
		if text, err := io.ReadAll(r); err != nil || string(text) != "got early late" {
			t.Errorf(`got text %q, error %v; want no error, text "got early late"`, text, err)
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
			t.Errorf(`%s: got resp %v, body %q; want resp.StatusCode %v, resp.Header.Get("X-Proxy-Error") %v, body %q, resp.Header.Get("Content-Type") "text/plain"`, tt.target, resp, body, tt.status, tt.code, tt.text)
		}
	}
	if want := "true deny baseline_policy not_allowed https_connect other.test CONNECT"; seen.all()[0] != want {
		t.Errorf("got %q, want seen.all()[0] %v", seen.all(), want)
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
				t.Errorf(`got %q; want bytes.HasPrefix(got, []byte(tt.want)), bytes.HasSuffix(got, []byte("got hello")) %v`, got, tt.tunnel)
			}
		})
	}
}

// TestCloseWaitsForNoAnswer: Close closes every connection and returns, even if the proxy is
// waiting for a name, a question, a tunnel or an answer.
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

// TestHangUp: if a client closes its connection while the policy question about it is open,
// the proxy does not connect.
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
		t.Errorf("got %q, want len(seen.all()) at most 0", seen.all())
	}
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
			t.Fatalf("%q: got %q; want ok true, again %q", data, host, host)
		}
	})
}

// TestHalfClosedClients: a client that has closed its sending direction still gets its answer, even
// if a question had to be asked first.
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
