package fetch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// web is a server with one path for each behaviour.
func web(t *testing.T) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		for name, values := range r.Header {
			w.Header()["X-Got-"+name] = values
		}
		w.Header().Set("X-Method", r.Method)
		w.Header()["X-Odd"] = []string{"\xff", "fine"}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(w, r.Body)
	})
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/echo", http.StatusFound)
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/loop", http.StatusFound)
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "short")
	})
	mux.HandleFunc("/huge", func(w http.ResponseWriter, r *http.Request) {
		for range MaxBuffered/1000 + 2 {
			if _, err := w.Write(make([]byte, 1000)); err != nil {
				return
			}
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func client(t *testing.T) *Client {
	c := NewClient()
	t.Cleanup(c.Close)
	return c
}

func free(int) error { return nil }

func TestDo(t *testing.T) {
	s, c := web(t), client(t)
	t.Setenv("FETCH_TEST_SECRET", "hush")
	res, err := c.Do(context.Background(), Request{
		Method: "patch", URL: s.URL + "/echo", Body: []byte("body"),
		Headers: []Header{{Name: "X-In", Value: "1"}, {Name: "x-in", Value: "2"}, {Name: "X-Auth", Value: "Bearer ", EnvVar: "FETCH_TEST_SECRET"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := res.ReadAll(free)
	if err != nil || string(body) != "body" || res.Status != http.StatusCreated {
		t.Errorf("%d %q %v", res.Status, body, err)
	}
	for _, want := range []Header{
		{Name: "x-method", Value: "patch"}, {Name: "x-got-x-in", Value: "1"}, {Name: "x-got-x-in", Value: "2"},
		{Name: "x-got-x-auth", Value: "Bearer hush"}, {Name: "x-odd", Value: "fine"},
	} {
		if !slices.Contains(res.Headers, want) {
			t.Errorf("%v is missing in %v", want, res.Headers)
		}
	}
	for _, h := range res.Headers {
		if strings.HasPrefix(h.Name, "x-got-user") || strings.HasPrefix(h.Name, "x-got-accept") || h.Value == "\xff" {
			t.Errorf("unexpected %v", h)
		}
	}
}

func TestInvalid(t *testing.T) {
	c := client(t)
	for _, tt := range []struct {
		r    Request
		want string
	}{
		{Request{Method: "G T", URL: "nope"}, "http/request method is invalid: "},
		{Request{Method: "", URL: "http://x/"}, "http/request method is invalid: "},
		{Request{Method: "GET", URL: "nope"}, "http/request url is invalid: "},
		{Request{Method: "GET", URL: "http://"}, "http/request url is invalid: "},
		{Request{Method: "GET", URL: "http://u:secret@[x/"}, "http/request url is invalid: "},
		{Request{Method: "GET", URL: "ftp://x/"}, "http/request only supports http and https URLs, got ftp"},
		{Request{Method: "GET", URL: "http://x/", Headers: []Header{{Name: "a b"}}}, "http/request header name is invalid: "},
		{Request{Method: "GET", URL: "http://x/", Headers: []Header{{Name: "X", Value: "a\nb"}}}, "http/request header value is invalid for X: "},
		{Request{Method: "GET", URL: "http://x/", Headers: []Header{{Name: "X", EnvVar: "NO_SUCH_VARIABLE_HERE"}}}, "http/request header value is invalid for X: "},
	} {
		_, err := c.Do(context.Background(), tt.r)
		var invalid *InvalidError
		if !errors.As(err, &invalid) || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", tt.r, err)
		}
	}
}

func TestRedirects(t *testing.T) {
	s, c := web(t), client(t)
	for _, tt := range []struct {
		path   string
		stop   bool
		status int
	}{{"/redirect", false, 201}, {"/redirect", true, 302}, {"/loop", true, 302}, {"/loop", false, 0}} {
		res, err := c.Do(context.Background(), Request{Method: "GET", URL: s.URL + tt.path, StopRedirects: tt.stop})
		if tt.status == 0 {
			if err == nil || !strings.Contains(err.Error(), "too many redirects") {
				t.Errorf("%s: %v", tt.path, err)
			}
			continue
		}
		if err != nil || res.Status != tt.status {
			t.Errorf("%s: %v, %v", tt.path, res, err)
			continue
		}
		res.Body.Close()
	}
}

func TestFailures(t *testing.T) {
	s, c := web(t), client(t)
	get := func(path string, timeout time.Duration) (*Response, error) {
		return c.Do(context.Background(), Request{Method: "GET", URL: s.URL + path, Timeout: timeout, HasTimeout: timeout > 0})
	}
	res, err := get("/slow", 50*time.Millisecond)
	if err == nil {
		_, err = res.ReadAll(free)
		res.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "timed out") {
		t.Errorf("slow: %v", err)
	}
	if res, err = get("/cut", 0); err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := res.ReadAll(free); err == nil || !strings.HasPrefix(err.Error(), "failed to read http/request response body: ") {
		t.Errorf("cut: %v", err)
	}
	if res, err = get("/huge", 0); err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := res.ReadAll(free); err == nil || !strings.Contains(err.Error(), "streamResponse") {
		t.Errorf("huge: %v", err)
	}
	if res, err = get("/echo", 0); err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	refuse := errors.New("refused")
	if _, err := res.ReadAll(func(int) error { return refuse }); !errors.Is(err, refuse) {
		t.Errorf("refused: %v", err)
	}
	s.Close()
	if _, err := get("/echo", 0); err == nil || !strings.HasPrefix(err.Error(), "http/request failed: ") {
		t.Errorf("no server: %v", err)
	}
}

// TestCharacters tries every ASCII character and some beyond in a token and in
// a value.
func TestCharacters(t *testing.T) {
	const token = "!#$%&'*+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ^_`abcdefghijklmnopqrstuvwxyz|~"
	for c := range rune(0x180) {
		text := "a" + string(c)
		if got, want := validToken(text), strings.ContainsRune(token, c); got != want {
			t.Errorf("%q as a token: %v, want %v", text, got, want)
		}
		if got, want := validValue(text), c >= ' ' && c != 0x7f || c == '\t'; got != want {
			t.Errorf("%q as a value: %v, want %v", text, got, want)
		}
	}
	if validToken("") || validToken("\xff") || !validValue("\xff") {
		t.Error("the empty token or what is no UTF-8 is taken for something else")
	}
}
