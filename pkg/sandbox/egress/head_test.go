package egress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestHeads: the proxy answers a head that is malformed or too large with an error, and ends the
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
			t.Errorf("%s: got %s, want resp.Status[:3] %v", name, resp.Status, tt.status)
		}
		if resp.StatusCode == http.StatusOK {
			continue
		}
		if _, err := r.ReadByte(); !errors.Is(err, io.EOF) || body != "" {
			t.Errorf("%s: %q, then %v", name, body, err)
		}
	}
}

// TestTargetsThatAreNoPath: text that is neither a URI nor a path would become a part of the host
// in a request to an upstream proxy.
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

// FuzzHead: an accepted head has a target in normal form, and net/http reads the
// forwarded bytes as the same single request.
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
		// A path that looks like the beginning of a host may become a whole URI: see outgoing.
		if uri := again.RequestURI; uri != to.path && (!strings.HasPrefix(to.path, "//") || uri != "http://"+to.header+to.path) {
			t.Fatalf("%q becomes %q", text, sent.String())
		}
	})
}

// anyHead counts a head that always gets a slot.
func anyHead() *headSize { return &headSize{admit: func() bool { return true }} }

// TestLargeHeadsAreBounded: a process that does not finish its heads cannot take maxHead bytes for
// each of its connections.
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
	// The proxy sends the answer before it frees the slot.
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

// await polls until a condition holds. It is for conditions that no event reports.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(testTimeout); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not happen")
		}
	}
}
