package egress

import (
	"bufio"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestInjectionPastTheProxy: the proxy also injects the credential if a program bypasses the proxy,
// and it refuses a placeholder that such a program sends to another host.
func TestInjectionPastTheProxy(t *testing.T) {
	port, ca := tlsServer(t, show)
	x := injecting(t, Hooks{}, placed(port, ca, secretFile(t, testSecret)))
	l := redirectTo(t, x)
	conn := tls.Client(l.connect("127.0.0.1:"+port), trusting(t, x, "127.0.0.1"))
	resp, body := exchange(t, conn, bufio.NewReader(conn), "GET / HTTP/1.1\r\nHost: 127.0.0.1:"+port+"\r\n\r\n")
	if body != "GET / 127.0.0.1:"+port+" true 1 " {
		t.Errorf("got resp.Status %s, body %s; want body %s", resp.Status, body, "GET / 127.0.0.1:"+port+" true 1 ")
	}
	plain := l.connect("127.0.0.1:80")
	if _, err := io.WriteString(plain, "GET /"+variable(x, "MY_TOKEN")+" HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	refused, err := http.ReadResponse(bufio.NewReader(plain), nil)
	if err != nil || refused.StatusCode != http.StatusForbidden {
		t.Fatal(refused, err)
	}
	if text, err := io.ReadAll(refused.Body); err != nil || !strings.Contains(string(text), ReasonPlaceholder) {
		t.Errorf("got text %s, error %v; want no error, text with %q", text, err, ReasonPlaceholder)
	}
}
