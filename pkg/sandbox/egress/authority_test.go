package egress

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestUpstreamIsVerified: a host gets no credential if its certificate is not
// signed by the authorities that the owner named.
func TestUpstreamIsVerified(t *testing.T) {
	asked := make(chan string, 1)
	port, _ := tlsServer(t, func(_ http.ResponseWriter, r *http.Request) { asked <- r.Header.Get("Authorization") })
	entry := placed(port, "", secretFile(t, testSecret))
	x := injecting(t, Hooks{}, entry)
	conn, r := secure(t, x, "127.0.0.1:"+port)
	resp, body := exchange(t, conn, r, "GET / HTTP/1.1\r\nHost: 127.0.0.1:"+port+"\r\n\r\n")
	if resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, "certificate signed by unknown authority") {
		t.Errorf(`got resp.Status %s, body %q; want resp.StatusCode %v, body with "certificate signed by unknown authority"`, resp.Status, body, http.StatusBadGateway)
	}
	select {
	case <-asked:
		t.Error("the request was sent")
	default:
	}
}

// TestBundleEnds: the bundle is a file that only this user can read, and closing the proxy removes
// it.
func TestBundleEnds(t *testing.T) {
	x := injecting(t, Hooks{}, placed("1", "", secretFile(t, testSecret)))
	path := x.Bundle()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o400 {
		t.Fatalf("got info %v, error %v; want no error, info.Mode().Perm() 0o400", info, err)
	}
	for _, name := range bundleVariables {
		if variable(x, name) != path {
			t.Errorf("%s is %q", name, variable(x, name))
		}
	}
	system, err := systemBundle(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(text, system) || !bytes.HasSuffix(text, x.secrets.authority.pem()) {
		t.Errorf("the bundle has not the system's certificates and the authority's: %v", err)
	}
	x.Close()
	if list, err := os.ReadDir(filepath.Dir(filepath.Dir(path))); err != nil || len(list) > 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
	plain := testProxy(t, Options{}, Config{}, Hooks{})
	if plain.Bundle() != "" || variable(plain, "SSL_CERT_FILE") != "" {
		t.Error("a server without credentials changes what processes trust")
	}
}

// TestLeavesAreRenewed: a host's certificate is replaced before it expires, and
// otherwise reused.
func TestLeavesAreRenewed(t *testing.T) {
	a, err := newAuthority([]string{"a.test", strings.Repeat("x", 63) + ".test"})
	if err != nil {
		t.Fatal(err)
	}
	first, err := a.leaf("a.test")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := a.leaf("a.test"); err != nil || again != first {
		t.Errorf("it was made again: %v", err)
	}
	old := *first.Leaf
	old.NotAfter = time.Now().Add(leafTime/2 - time.Minute)
	first.Leaf = &old
	if again, err := a.leaf("a.test"); err != nil || again == first {
		t.Errorf("it was not made again: %v", err)
	}
	for _, host := range []string{strings.Repeat("x", 63) + ".test", "127.0.0.1", "::1"} {
		if leaf, err := a.leaf(host); err != nil || leaf.Leaf.Subject.CommonName != "" {
			t.Errorf("%s has a common name, which OpenSSL compares with the authority's names: %v", host, err)
		}
	}
}
