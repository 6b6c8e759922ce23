//go:build linux

package execclient_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// origin is an HTTP server with a path for each behaviour.
func origin(t testing.TB) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		for name, values := range r.Header {
			w.Header()["X-Got-"+name] = values
		}
		w.Header()["X-Line"] = []string{"a", "b"}
		w.Header().Set("X-Request", r.Method+" "+r.Host+" "+r.RequestURI)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(w, r.Body)
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		for i := range 5 << 20 / 64 {
			fmt.Fprintf(w, "%-63d\n", i)
		}
	})
	mux.HandleFunc("/huge", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.CopyN(w, zeros{}, hugeBody) })
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/echo", http.StatusFound)
	})
	mux.HandleFunc("/begin", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begin")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/never", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "short")
	})
	mux.HandleFunc("/nothing", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	s := httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections() // closes the connections of abandoned requests
		s.Close()
	})
	return s
}

// hugeBody is larger than the part of an unread body that a client buffers.
const hugeBody = 20 << 20

// fetch makes a request through a server and returns the answer with its body.
func fetch(t *testing.T, client *execclient.Client, req *http.Request) (*http.Response, string) {
	t.Helper()
	res, err := client.HTTP().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func TestHTTP(t *testing.T) {
	client, _ := connect(t)
	web := origin(t)
	request := func(method, path string, body io.Reader) *http.Request {
		req, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, body)
		if err != nil {
			t.Fatal(err)
		}
		return req
	}
	t.Run("everything is passed on", func(t *testing.T) {
		req := request("PUT", "/echo?a=b%20c#fragment", strings.NewReader("the body"))
		req.Header = http.Header{"X-One": {"1", "2"}, "Content-Length": {"99"}}
		req.Host = "elsewhere"
		res, body := fetch(t, client, req)
		if res.StatusCode != 201 || res.Status != "201 Created" || body != "the body" || res.Request != req {
			t.Errorf(`got res %+v, body %q; want res.StatusCode 201, res.Status "201 Created", body "the body", res.Request %v`, res, body, req)
		}
		for name, want := range map[string]string{
			"X-Request": "PUT elsewhere /echo?a=b%20c", "X-Got-X-One": "1,2", "X-Line": "a,b", "X-Got-User-Agent": "",
		} {
			if got := strings.Join(res.Header[name], ","); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	})
	t.Run("a large body", func(t *testing.T) {
		direct, err := http.Get(web.URL + "/large")
		if err != nil {
			t.Fatal(err)
		}
		defer direct.Body.Close()
		want, err := io.ReadAll(direct.Body)
		if err != nil {
			t.Fatal(err)
		}
		if _, body := fetch(t, client, request("", "/large", nil)); sha256.Sum256([]byte(body)) != sha256.Sum256(want) {
			t.Errorf("%d bytes of %d", len(body), len(want))
		}
	})
	t.Run("no body", func(t *testing.T) {
		if res, body := fetch(t, client, request("POST", "/nothing", http.NoBody)); res.StatusCode != 204 || body != "" {
			t.Errorf(`got res %+v, body %q; want res.StatusCode 204, body ""`, res, body)
		}
	})
	t.Run("a redirect", func(t *testing.T) {
		if res, _ := fetch(t, client, request("GET", "/redirect", nil)); res.StatusCode != 302 || res.Header.Get("Location") != "/echo" {
			t.Errorf(`got %+v; want res.StatusCode 302, res.Header.Get("Location") "/echo"`, res)
		}
		follow := &http.Client{Transport: client.HTTP()}
		res, err := follow.Get(web.URL + "/redirect")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != 201 || res.Request.URL.Path != "/echo" {
			t.Errorf(`got %+v; want res.StatusCode 201, res.Request.URL.Path "/echo"`, res)
		}
	})
	t.Run("all at once", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				req := request("POST", "/echo", strings.NewReader(strings.Repeat(fmt.Sprint(i), 300_000)))
				res, err := client.HTTP().RoundTrip(req)
				if err != nil {
					t.Error(err)
					return
				}
				defer res.Body.Close()
				if i%4 == 0 {
					return // nobody reads the answer
				}
				want := []byte(strings.Repeat(fmt.Sprint(i), 300_000))
				if body, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(body, want) {
					t.Errorf("request %d: %d bytes, %v", i, len(body), err)
				}
			})
		}
		wg.Wait()
	})
	t.Run("in one piece", func(t *testing.T) {
		r, err := client.DoHTTP(t.Context(), execproto.HTTPRequestParams{Method: "POST", URL: web.URL + "/echo", Body: []byte("x"), RequestID: "1"})
		if err != nil || r.Status != 201 || string(r.Body) != "x" {
			t.Errorf(`got r %+v, error %v; want no error, r.Status 201, r.Body "x"`, r, err)
		}
	})
}

func TestHTTPErrors(t *testing.T) {
	client, _ := connect(t)
	web := origin(t)
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	read := func(ctx context.Context, path string, body io.Reader) error {
		req, err := http.NewRequestWithContext(ctx, "POST", web.URL+path, body)
		if err != nil {
			return err
		}
		res, err := client.HTTP().RoundTrip(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		return err
	}
	pipe, _ := io.Pipe()
	for _, tt := range []struct {
		name string
		run  func() error
		want string
	}{
		{"a body that breaks off", func() error { return read(t.Context(), "/cut", nil) }, "http response stream `http-"},
		{"a deadline before the answer", func() error { return read(soon, "/never", nil) }, "deadline exceeded"},
		{"a deadline before the body of the request", func() error { return read(soon, "/never", pipe) }, "deadline exceeded"},
		{"the body of the request fails", func() error { return read(t.Context(), "/echo", failing{}) }, "no more"},
		{"it is too large", func() error {
			return read(t.Context(), "/echo", io.LimitReader(zeros{}, execclient.MaxRequestBody+1))
		}, "49283072 bytes"},
		{"it says that it is too large", func() error {
			return read(t.Context(), "/echo", bytes.NewReader(make([]byte, execclient.MaxRequestBody+1)))
		}, "49283072 bytes"},
		{"a scheme that is not HTTP", func() error {
			_, err := (&http.Client{Transport: client.HTTP()}).Get("ftp://127.0.0.1/")
			return err
		}, "only supports http and https URLs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.run(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// beginBody begins to read an endless body.
func beginBody(t *testing.T, ctx context.Context, client *execclient.Client) io.ReadCloser {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", origin(t).URL+"/begin", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.HTTP().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	begin := make([]byte, 5)
	if _, err := io.ReadFull(res.Body, begin); err != nil || string(begin) != "begin" {
		t.Fatalf(`got begin %q, error %v; want no error, begin "begin"`, begin, err)
	}
	return res.Body
}

func TestABodyEndsWithItsContext(t *testing.T) {
	client, _ := connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body := beginBody(t, ctx, client)
	cancel()
	if _, err := body.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
	body = beginBody(t, t.Context(), client)
	if err := errors.Join(body.Close(), body.Close()); err != nil {
		t.Error(err)
	}
	if _, err := body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("got error %v, want %v", err, http.ErrBodyReadAfterClose)
	}
}

func TestABodyEndsWithItsConnection(t *testing.T) {
	client, srv := connectWith(t, execclient.Options{RecoveryTimeout: -1})
	body := beginBody(t, t.Context(), client)
	defer body.Close()
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A server that shuts down reports that the request was canceled.
	_, err := body.Read(make([]byte, 1))
	if !errors.Is(err, execclient.ErrClosed) && (err == nil || !strings.Contains(err.Error(), "http response stream")) {
		t.Errorf(`got error %v, want an error with "http response stream"`, err)
	}
	if errors.Is(err, syscall.EPIPE) {
		t.Errorf("%v is a file's error", err)
	}
}

// TestABodyWaitsForItsReader: an unread body waits, and does not block other requests.
func TestABodyWaitsForItsReader(t *testing.T) {
	client, _ := connect(t)
	web := origin(t)
	get := func(path string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), "GET", web.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.HTTP().RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	slow, abandoned := get("/huge"), get("/huge")
	defer slow.Body.Close()
	// This is more data than can be in flight.
	for range 5 {
		res := get("/large")
		if n, err := io.Copy(io.Discard, res.Body); err != nil || n != 5<<20 {
			t.Fatalf("%d bytes, %v", n, err)
		}
		_ = res.Body.Close()
	}
	if err := abandoned.Body.Close(); err != nil {
		t.Error(err)
	}
	if n, err := io.Copy(io.Discard, slow.Body); err != nil || n != hugeBody {
		t.Errorf("%d bytes, %v", n, err)
	}
}
