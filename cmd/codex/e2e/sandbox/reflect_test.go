package sandbox

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
)

// reflectEnv makes this program try to extract a host's credential from the data that the host's
// server echoes. Its value is the host.
const reflectEnv = "E2E_REFLECT"

func init() {
	origin := os.Getenv(reflectEnv)
	if origin == "" {
		return
	}
	for _, try := range []struct {
		name string
		do   func(origin string) (string, error)
	}{
		{"whole", whole}, {"pieces", pieces}, {"parts", parts}, {"compressed", compressed}, {"unknown", unknown},
		{"HTTP/2", http2}, {"preface", preface}, {"upgrade", upgrade}, {"CONNECT", connectInside},
	} {
		got, err := try.do(origin)
		if err != nil {
			got = err.Error()
		}
		fmt.Printf("%s: %q\n", try.name, got)
	}
	os.Exit(0)
}

// reflects adds pages that echo the credential of a request: unchanged, in the requested byte
// ranges, and compressed without a request for that.
func reflects(mux *http.ServeMux) {
	mux.HandleFunc("/parts", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "x.txt", time.Time{}, strings.NewReader(r.Header.Get("Authorization")))
	})
	mux.HandleFunc("/compressed", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, r.Header.Get("Authorization"))
		_ = z.Close()
	})
	mux.HandleFunc("/unknown", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	})
}

// through requests a path of the origin through the proxy.
func through(origin, path string, header http.Header) (*http.Response, string, error) {
	proxy, err := url.Parse(os.Getenv("HTTPS_PROXY"))
	if err != nil {
		return nil, "", err
	}
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), DisableCompression: true, DisableKeepAlives: true}
	rq, err := http.NewRequest(http.MethodGet, "https://"+origin+path, nil)
	if err != nil {
		return nil, "", err
	}
	rq.Header = header
	resp, err := transport.RoundTrip(rq)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

func whole(origin string) (string, error) {
	_, text, err := through(origin, "/parts", http.Header{})
	return text, err
}

// pieces requests every byte separately.
func pieces(origin string) (string, error) {
	var all strings.Builder
	for i := range 8 {
		resp, text, err := through(origin, "/parts", http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", i, i)}, "If-Range": {"x"}})
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&all, "%d %d,", resp.StatusCode, len(text))
	}
	return all.String(), nil
}

// parts requests the response in two byte ranges.
func parts(origin string) (string, error) {
	resp, text, err := through(origin, "/parts", http.Header{"Range": {"bytes=0-9,10-"}})
	if err != nil {
		return "", err
	}
	return resp.Status + " " + text, nil
}

func compressed(origin string) (string, error) {
	resp, text, err := through(origin, "/compressed", http.Header{"Accept-Encoding": {"gzip"}})
	if err != nil {
		return "", err
	}
	return resp.Header.Get("Content-Encoding") + text, nil
}

func unknown(origin string) (string, error) {
	resp, _, err := through(origin, "/unknown", http.Header{"Accept-Encoding": {"br"}})
	if err != nil {
		return "", err
	}
	return resp.Status, nil
}

// tunnel opens a tunnel to the origin, and TLS in it with one application protocol.
func tunnel(origin, protocol string) (net.Conn, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(os.Getenv("HTTPS_PROXY"), "http://"))
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", origin, origin); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("CONNECT: %v, %w", resp, err)
	}
	host, _, err := net.SplitHostPort(origin)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{ServerName: host}
	if protocol != "" {
		config.NextProtos = []string{protocol}
	}
	inner := tls.Client(conn, config)
	return inner, inner.Handshake()
}

// say sends a text over TLS. It returns the first line and the body of the response.
func say(origin, text string) (string, error) {
	conn, err := tunnel(origin, "")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.Proto + " " + resp.Status + " " + string(body), err
}

func http2(origin string) (string, error) {
	_, err := tunnel(origin, "h2")
	return "", err
}

// preface sends HTTP/2 without negotiating it: an empty SETTINGS frame, and HEADERS for GET / (RFC
// 9113, RFC 7541).
func preface(origin string) (string, error) {
	block := append([]byte{0x82, 0x87, 0x84, 0x41, byte(len(origin))}, origin...)
	frames := append([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, byte(len(block)), 1, 5, 0, 0, 0, 1}, block...)
	return say(origin, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+string(frames))
}

func upgrade(origin string) (string, error) {
	return say(origin, "GET /echo HTTP/1.1\r\nHost: "+origin+"\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\n"+
		"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
}

func connectInside(origin string) (string, error) {
	return say(origin, "CONNECT "+origin+" HTTP/1.1\r\nHost: "+origin+"\r\nConnection: close\r\n\r\n")
}

// TestReflectedCredentials: if a host echoes its credential in byte ranges or compressed, the
// command does not receive it. HTTP/2 does not bypass the proxy's search.
func TestReflectedCredentials(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	k := keep(t, "auto", "127.0.0.1")
	self, err := os.Executable()
	harness.Must(t, err)
	size := len("Bearer " + k.credential)
	hidden := "Bearer " + strings.Repeat("*", len(k.credential))
	want := map[string]string{
		"whole": hidden, "pieces": strings.Repeat(fmt.Sprintf("200 %d,", size), 8), "parts": "200 OK " + hidden, "compressed": hidden,
		"unknown": "502 Bad Gateway", "HTTP/2": "remote error: tls: no application protocol", "preface": "HTTP/1.1 400 Bad Request ",
		"upgrade": "HTTP/1.1 200 OK welcome [" + hidden + "]\n", "CONNECT": "HTTP/1.1 400 Bad Request ",
	}
	script := reflectEnv + "=ORIGIN exec '" + self + "'"
	out, errs, code := harness.Run(t, "", k.arguments("workspace-write", script)...)
	if code != 0 || strings.Contains(out+errs, k.credential) {
		t.Fatalf("exit code %d, %q, %s", code, out, errs)
	}
	for line := range strings.Lines(out) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		got, err := strconv.Unquote(text)
		if expected, known := want[name]; err != nil || !known || !strings.HasPrefix(got, expected) {
			t.Errorf("%s: %q, want %q", name, text, expected)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("not tried: %q", want)
	}
	controlReflection(t, k)
}

// controlReflection checks that the host reveals the credential in each of these ways if there is
// no proxy.
func controlReflection(t *testing.T, k *keeper) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true,
	}}
	for path, wanted := range map[string]string{"/parts": "hush", "/compressed": k.credential, "/unknown": k.credential} {
		rq, err := http.NewRequest(http.MethodGet, "https://"+k.origin+path, nil)
		harness.Must(t, err)
		rq.Header.Set("Authorization", "Bearer "+k.credential)
		if path == "/parts" {
			rq.Header.Set("Range", "bytes=7-10")
		}
		resp, err := client.Do(rq)
		harness.Must(t, err)
		text, err := io.ReadAll(resp.Body)
		harness.Must(t, err)
		_ = resp.Body.Close()
		if path == "/compressed" {
			z, err := gzip.NewReader(bytes.NewReader(text))
			harness.Must(t, err)
			text, err = io.ReadAll(z)
			harness.Must(t, err)
		}
		if !strings.HasPrefix(strings.TrimPrefix(string(text), "Bearer "), wanted) {
			t.Errorf("control: %s: %q", path, text)
		}
	}
	client.CloseIdleConnections()
}
