package fetch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
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
		Headers: []Header{{Name: "X-In", Value: "1"}, {Name: "x-in", Value: "2"}, {Name: "X-Auth", Value: "Bearer ", EnvVar: new("FETCH_TEST_SECRET")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := res.ReadAll(free)
	if err != nil || string(body) != "body" || res.Status != http.StatusCreated {
		t.Errorf(`got res.Status %d, body %q, error %v; want no error, body "body", res.Status %d`, res.Status, body, err, http.StatusCreated)
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
		if strings.HasPrefix(h.Name, "x-got-user") || strings.HasPrefix(h.Name, "x-got-accept") && h.Name != "x-got-accept-encoding" || h.Value == "\xff" {
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
		{
			Request{Method: "GET", URL: "http://x/", Headers: []Header{{Name: "X", EnvVar: new("NO_SUCH_VARIABLE_HERE")}}},
			"http/request header X requires executor environment variable NO_SUCH_VARIABLE_HERE",
		},
		{Request{Method: "GET", URL: "http://x/", Headers: []Header{{Name: "X", EnvVar: new("")}}}, "http/request header X requires executor environment variable "},
	} {
		_, err := c.Do(context.Background(), tt.r)
		var invalid *InvalidError
		if !errors.As(err, &invalid) || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf(`%+v: got error %v; want errors.As(err, &invalid), an error beginning with %q, an error without "secret"`, tt.r, err, tt.want)
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
				t.Errorf(`%s: got error %v, want an error with "too many redirects"`, tt.path, err)
			}
			continue
		}
		if err != nil || res.Status != tt.status {
			t.Errorf("%s: got res %v, error %v; want no error, res.Status %v", tt.path, res, err, tt.status)
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

// A request never contains the executor's own credentials, whatever the case of letters in the
// client's request.
func TestCredentialsAreRefused(t *testing.T) {
	c := client(t)
	for _, name := range credentials {
		t.Setenv(name, "hunter2")
		for _, spelled := range []string{name, strings.ToLower(name)} {
			_, err := c.Do(t.Context(), Request{Method: "GET", URL: "http://127.0.0.1:1/", Headers: []Header{{Name: "X-A", EnvVar: new(spelled)}}})
			var invalid *InvalidError
			if !errors.As(err, &invalid) || err.Error() != "http/request header X-A cannot use executor environment variable "+spelled {
				t.Errorf("%s: got error %v; want errors.As(err, &invalid), %v", spelled, err, "http/request header X-A cannot use executor environment variable "+spelled)
			}
		}
	}
	t.Setenv("FETCH_TEST_EMPTY", "")
	_, err := c.Do(t.Context(), Request{Method: "GET", URL: "http://127.0.0.1:1/", Headers: []Header{{Name: "X-A", Value: "a", EnvVar: new("FETCH_TEST_EMPTY")}}})
	if err == nil || err.Error() != "http/request header X-A requires a non-empty executor environment variable FETCH_TEST_EMPTY" {
		t.Error(err)
	}
}

// Secrets are sent to the origin that the client has named, and not to the target of a redirect:
// neither to another port, nor to another name of the same machine, nor back to the first origin.
func TestSecretsStayWithTheirOrigin(t *testing.T) {
	t.Setenv("FETCH_TEST_SECRET", "hunter2")
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			return
		}
		for name, values := range r.Header {
			w.Header()["X-Got-"+name] = values
		}
	})
	a, b := httptest.NewServer(handler), httptest.NewServer(handler)
	defer a.Close()
	defer b.Close()
	named := strings.Replace(a.URL, "127.0.0.1", "localhost", 1)
	via := func(urls ...string) string {
		target := urls[len(urls)-1] + "/"
		for i := len(urls) - 2; i >= 0; i-- {
			target = urls[i] + "/?to=" + url.QueryEscape(target)
		}
		return target
	}
	c := client(t)
	for name, tt := range map[string]struct {
		url  string
		kept bool
	}{
		"no redirect":           {via(a.URL), true},
		"the same origin":       {via(a.URL, a.URL), true},
		"a relative redirect":   {a.URL + "/?to=/", true},
		"another port":          {via(a.URL, b.URL), false},
		"another name":          {via(a.URL, named), false},
		"away and back":         {via(a.URL, b.URL, a.URL), false},
		"away in several steps": {via(a.URL, a.URL, b.URL), false},
	} {
		res, err := c.Do(t.Context(), Request{Method: "POST", URL: tt.url, Body: []byte("x"), Headers: []Header{
			{Name: "X-Api-Key", EnvVar: new("FETCH_TEST_SECRET")}, {Name: "x-api-key", Value: "b"}, {Name: "X-Plain", Value: "plain"},
			{Name: "Authorization", Value: "Bearer t"}, {Name: "Cookie", Value: "a=b"}, {Name: "Proxy-Authorization", Value: "p"},
		}})
		if err != nil {
			t.Errorf("%s: got error %v, want no error", name, err)
			continue
		}
		res.Body.Close()
		got := map[string]bool{}
		for _, h := range res.Headers {
			got[h.Name] = true
		}
		for _, header := range []string{"x-api-key", "authorization", "cookie", "proxy-authorization"} {
			if got["x-got-"+header] != tt.kept {
				t.Errorf("%s: %s was sent: %v, want %v", name, header, !tt.kept, tt.kept)
			}
		}
		if !got["x-got-x-plain"] || !tt.kept && got["x-got-referer"] {
			t.Errorf("%s: got %v", name, res.Headers)
		}
	}
}

// TestSecretsStayWithTheirScheme: a redirect to another scheme leads to another origin, even if
// host and port are the same.
func TestSecretsStayWithTheirScheme(t *testing.T) {
	for _, tt := range []struct {
		from, to string
		kept     bool
	}{
		{"https://x.test/", "https://X.test:443/y", true},
		{"http://x.test", "HTTP://x.test:80/", true},
		{"https://x.test/", "http://x.test:443/", false},
		{"https://x.test:8443/", "http://x.test:8443/", false},
		{"http://x.test/", "https://x.test/", false},
	} {
		request := func(address string) *http.Request {
			r, err := http.NewRequest(http.MethodGet, address, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer t")
			r.Header.Set("X-Secret", "s")
			return r
		}
		next := request(tt.to)
		if err := (&Request{}).redirect(next, []*http.Request{request(tt.from)}, []string{"X-Secret"}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"Authorization", "X-Secret"} {
			if kept := next.Header.Get(name) != ""; kept != tt.kept {
				t.Errorf("from %s to %s: %s is sent: %v", tt.from, tt.to, name, kept)
			}
		}
	}
}
