package proxybridge

import (
	"net/url"
	"strings"
	"testing"

	"codex.internal/pkg/wire/jsonwire"
)

func TestProxyURLs(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Endpoint // none: not usable
		to   string   // rewritten to port 9
	}{
		{"http://127.0.0.1:3128", Endpoint{"127.0.0.1", 3128, ""}, "http://127.0.0.1:9"},
		{"http://127.0.0.1:3128/", Endpoint{"127.0.0.1", 3128, ""}, "http://127.0.0.1:9"},
		{"http://localhost", Endpoint{"localhost", 80, ""}, "http://127.0.0.1:9"},
		{"HTTPS://LocalHost", Endpoint{"localhost", 443, ""}, "HTTPS://127.0.0.1:9"},
		{"socks5h://localhost", Endpoint{"localhost", 1080, ""}, "socks5h://127.0.0.1:9"},
		{"socks://[::1]", Endpoint{"::1", 1080, ""}, "socks://127.0.0.1:9"},
		{"http://[::1]:8080/p?q=1", Endpoint{"::1", 8080, ""}, "http://127.0.0.1:9/p?q=1"},
		{"localhost:1", Endpoint{"localhost", 1, ""}, "127.0.0.1:9"},
		{" 127.0.0.1 ", Endpoint{"127.0.0.1", 80, ""}, "127.0.0.1:9"},
		{"http://user:pa@ss@localhost:65535/x/", Endpoint{"localhost", 65535, ""}, "http://user:pa@ss@127.0.0.1:9/x/"},
		{"http://localhost:", Endpoint{"localhost", 80, ""}, "http://127.0.0.1:9"},
		{"http://localhost:0", Endpoint{}, ""},
		{"http://localhost:65536", Endpoint{}, ""},
		{"http://localhost:-1", Endpoint{}, ""},
		{"http://localhost:x", Endpoint{}, ""},
		{"http://127.0.0.2:80", Endpoint{}, ""},
		{"http://proxy.example:80", Endpoint{}, ""},
		{"http://localhost.example", Endpoint{}, ""},
		{"http://127.0.0.1@evil.example:80", Endpoint{}, ""},
		{"http://[::1", Endpoint{}, ""},
		{"http://::1:80", Endpoint{}, ""},
		{"", Endpoint{}, ""},
		{"http://", Endpoint{}, ""},
	} {
		u, ok := parseProxyURL(tt.text)
		if ok != (tt.want != Endpoint{}) {
			t.Errorf("%q: usable %v", tt.text, ok)
			continue
		}
		if ok && (u.Endpoint != tt.want || u.rewrite(9) != tt.to) {
			t.Errorf("%q: %+v %q, want %+v %q", tt.text, u.Endpoint, u.rewrite(9), tt.want, tt.to)
		}
	}
}

// FuzzProxyURL: other parsers also read an accepted URL as a loopback address,
// and the rewritten URL leads to the listener.
func FuzzProxyURL(f *testing.F) {
	for _, text := range []string{"http://127.0.0.1:3128", "https://u:p@localhost/x", "[::1]:1", "socks5://localhost?x#y", "http://a@b@localhost:1/@"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, ok := parseProxyURL(text)
		if !ok {
			return
		}
		if u.Port == 0 {
			t.Fatal("port 0")
		}
		again, ok := parseProxyURL(u.rewrite(4711))
		if !ok || again.Port != 4711 || again.Host != "127.0.0.1" || again.scheme != u.scheme || again.user != u.user {
			t.Fatalf("%q: %+v is rewritten to %+v", text, u, again)
		}
		if !strings.Contains(text, "://") {
			return
		}
		// A program that reads the URL differently must not be led elsewhere.
		if std, err := url.Parse(u.rewrite(4711)); err == nil && std.Scheme != "" && std.Host != "" && std.Host != "127.0.0.1:4711" {
			t.Fatalf("%q leads net/url to %q", u.rewrite(4711), std.Host)
		}
	})
}

func TestRouteSpecs(t *testing.T) {
	for _, tt := range []struct {
		text, want string // want: env_key=uds_path, or an error
	}{
		{`{"routes":[{"env_key":"HTTP_PROXY","uds_path":"/s"}]}`, "HTTP_PROXY=/s"},
		{`{"routes":[{"x":1,"uds_path":"/s","env_key":"A"}],"y":{}}`, "A=/s"},
		{`{"routes":[]}`, "proxy routing spec contained no routes"},
		{`{}`, "proxy routing spec contained no routes"},
		{`{"routes":[{"env_key":"A"}]}`, "routes: missing field `uds_path`"},
		{`{"routes":[{"env_key":"A","uds_path":""}]}`, "routes: a route needs env_key and uds_path"},
		{`{"routes":1}`, "invalid proxy route spec: "},
		{`nope`, "invalid proxy route spec: "},
		{`{"routes":[{"env_key":"A","uds_path":"/s"}]} x`, "invalid proxy route spec: "},
	} {
		routes, err := parseRoutes(tt.text)
		if err != nil {
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: got error %v, want an error with %q", tt.text, err, tt.want)
			}
			continue
		}
		key, path, _ := strings.Cut(tt.want, "=")
		if len(routes) != 1 || routes[key] != path {
			t.Errorf("%s: got %v; want len(routes) 1, routes[key] %v", tt.text, routes, path)
		}
	}
	if routes, err := parseRoutes(""); routes != nil || err != nil {
		t.Errorf("got routes %v, error %v; want routes nil, no error", routes, err)
	}
}

// FuzzRouteSpec: an accepted text is JSON with a route for every name.
func FuzzRouteSpec(f *testing.F) {
	for _, text := range []string{`{"routes":[{"env_key":"HTTP_PROXY","uds_path":"/s"}]}`, `{"routes":[]}`, `{"routes":[{}]}`, `{"routes":null}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		routes, err := parseRoutes(text)
		if err != nil || text == "" {
			return
		}
		r := jsonwire.NewReader([]byte(text))
		if err := r.Skip(); err != nil || len(routes) == 0 {
			t.Fatalf("%q: got routes %v, error %v; want no error, len(routes) other than 0", text, routes, err)
		}
		for key, path := range routes {
			if key == "" || path == "" {
				t.Fatalf(`%q: got %v; want key other than "", path other than ""`, text, routes)
			}
		}
	})
}

func TestProxiesOfAnEnvironment(t *testing.T) {
	find := func(spec string, env ...string) (*Routes, error) { return Find(env, spec) }
	x, err := find("", "A=http://localhost:1", "HTTP_PROXY=http://localhost:1", "https_proxy=http://localhost:1/", "Pip_Proxy=http://127.0.0.1:1", "ALL_PROXY=http://far.example", "FTP_PROXY=")
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Endpoints) != 2 || len(x.Ports) != 2 {
		t.Errorf("got %+v; want len(x.Endpoints) 2, len(x.Ports) 2", x.Endpoints)
	}
	for i, want := range []string{"A=http://localhost:1", "HTTP_PROXY=http://127.0.0.1:", "https_proxy=http://127.0.0.1:", "Pip_Proxy=http://127.0.0.1:", "ALL_PROXY=http://far.example", "FTP_PROXY="} {
		if !strings.HasPrefix(x.Env[i], want) {
			t.Errorf("%s, want %s", x.Env[i], want)
		}
	}
	if a, b := strings.SplitN(x.Env[1], ":", 3)[2], strings.SplitN(x.Env[2], ":", 3)[2]; a != b {
		t.Errorf("one proxy has two ports: %s %s", a, b)
	}
	for _, tt := range []struct {
		spec string
		env  []string
		want string
	}{
		{"", nil, "managed proxy mode requires proxy environment variables"},
		{"", []string{"HTTP_PROXY= "}, "managed proxy mode requires proxy environment variables"},
		{"", []string{"HTTP_PROXY=http://far.example"}, "managed proxy mode requires parseable loopback proxy endpoints"},
		{`{"routes":[{"env_key":"HTTP_PROXY","uds_path":"/s"},{"env_key":"ALL_PROXY","uds_path":"/s"}]}`, []string{"HTTP_PROXY=http://localhost:1"}, "missing proxy env key ALL_PROXY"},
	} {
		if _, err := find(tt.spec, tt.env...); err == nil || err.Error() != tt.want {
			t.Errorf("%q: %v, want %s", tt.env, err, tt.want)
		}
	}
	x, err = find(`{"routes":[{"env_key":"HTTP_PROXY","uds_path":"/s"}]}`, "HTTP_PROXY=http://localhost:1", "ALL_PROXY=http://localhost:1")
	if err != nil || len(x.Endpoints) != 1 || x.Endpoints[0] != (Endpoint{Path: "/s"}) || x.Env[1] != "ALL_PROXY=http://localhost:1" {
		t.Errorf(`got error %v, x %+v; want no error, len(x.Endpoints) 1, x.Endpoints[0] Endpoint{Path: "/s"}, x.Env[1] "ALL_PROXY=http://localhost:1"`, err, x)
	}
}
