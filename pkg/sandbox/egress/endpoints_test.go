package egress

import (
	"slices"
	"testing"
)

// TestEndpoints: a pattern with a port permits that port and no other, and the client is asked
// about its host.
func TestEndpoints(t *testing.T) {
	e, err := ParseEndpoints([]string{"a.test", "b.test:443", "*.c.test:22", "**.d.test:8080", "::1", "[::2]:80", "[2001:db8::3]", "*:993", "127.0.0.1:5432"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		host string
		port uint16
		want string
	}{
		{"a.test", 1, "a.test"},
		{"a.test", 65535, "a.test"},
		{"b.test", 443, "b.test:443"},
		{"b.test", 80, ""},
		{"x.b.test", 443, ""},
		{"x.c.test", 22, "*.c.test:22"},
		{"x.c.test", 2222, ""},
		{"c.test", 22, ""},
		{"d.test", 8080, "**.d.test:8080"},
		{"x.d.test", 8080, "**.d.test:8080"},
		{"::1", 7, "::1"},
		{"::2", 80, "::2:80"},
		{"::2", 81, ""},
		{"2001:db8::3", 9, "2001:db8::3"},
		{"other.test", 993, "*:993"},
		{"other.test", 994, ""},
		{"127.0.0.1", 5432, "127.0.0.1:5432"},
		{"127.0.0.1", 5433, ""},
	} {
		if got := e.Match(tt.host, tt.port); got != tt.want {
			t.Errorf("%s port %d: %q, want %q", tt.host, tt.port, got, tt.want)
		}
	}
	want := []string{"b.test", "*.c.test", "**.d.test", "[::2]", "*", "127.0.0.1"}
	if got := e.Review(); !slices.Equal(got, want) {
		t.Errorf("to be asked about: %q, want %q", got, want)
	}
	if domains := e.Domains(); len(domains) != 9 || domains["b.test"] != Allow || domains["b.test:443"] != "" {
		t.Errorf("without ports: %v", domains)
	}
	if _, err := NewPolicy(Config{Domains: e.Domains(), Review: e.Review()}); err != nil {
		t.Error(err)
	}
	for _, text := range []string{
		"", ":443", "a.test:", "a.test:0", "a.test:65536", "a.test:+1", "a.test:x", "a.test:1:2", "https://a.test", "a b", "[a.test]:1", "[::1]x", "[::1]:0", "***:1",
	} {
		if _, err := ParseEndpoints([]string{text}); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// FuzzEndpoints: a policy accepts every accepted pattern without its port. If
// every pattern has a port, other ports are not permitted.
func FuzzEndpoints(f *testing.F) {
	for _, text := range []string{"a.test:443", "*.a.test", "[::1]:80", "::1", "**.a:1", "a:00443", "*:1"} {
		f.Add(text, "a.test", uint16(443))
	}
	f.Fuzz(func(t *testing.T, text, host string, port uint16) {
		e, err := ParseEndpoints([]string{text})
		if err != nil {
			return
		}
		if _, err := NewPolicy(Config{Domains: e.Domains(), Review: e.Review()}); err != nil {
			t.Errorf("%q is a pattern, and %v", text, err)
		}
		if len(e.Review()) > 0 && e.Match(host, port) != "" && e.Match(host, port^1) != "" {
			t.Errorf("%q has a port, and permits %d and %d of %q", text, port, port^1, host)
		}
	})
}
