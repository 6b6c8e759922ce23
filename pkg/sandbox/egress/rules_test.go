package egress

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestPatterns(t *testing.T) {
	for _, tt := range []struct{ pattern, yes, no string }{
		{"a.test", "a.test", "b.a.test a.tes"},
		{"A.Test.", "a.test", ""},
		{"a.test:80", "a.test", "80"},
		{"*.a.test", "x.a.test x.y.a.test", "a.test xa.test"},
		{"**.a.test", "a.test x.a.test x.y.a.test", "xa.test"},
		{"*", "a.test ::1 1.2.3.4", ""},
		{"[*]", "a.test", ""},
		{"**.*", "a b.c", ""},
		{"*.*", "a.b 1.2.3.4", "localhost"},
		{"a*b.test", "ab.test axb.test ax.yb.test", "a.test"},
		{"a?b.test", "axb.test a.b.test", "ab.test axxb.test"},
		{"*a.test", "a.test xa.test y.xa.test", "b.test"},
		{"x.*.test", "x.a.test x.a.b.test", "x.test"},
		{"93.184.216.*", "93.184.216.1", "93.184.217.1"},
		{"[2001:DB8:0::1]", "2001:db8::1", "2001:db8::2"},
		{"[2001:db8::1]:443", "2001:db8::1", ""},
		{"2001:db8::1", "2001:db8::1", ""},
		{"::ffff:1.2.3.4", "1.2.3.4", ""},
		{"bücher.test", "bücher.test", "xn--bcher-kva.test"},
	} {
		p, err := parsePattern(tt.pattern)
		if err != nil {
			t.Errorf("%s: got error %v, want no error", tt.pattern, err)
			continue
		}
		var l patterns
		l.add(p)
		for _, host := range strings.Fields(tt.yes) {
			if l.find(host) == "" {
				t.Errorf("%s does not match %s", tt.pattern, host)
			}
		}
		for _, host := range strings.Fields(tt.no) {
			if l.find(host) != "" {
				t.Errorf("%s matches %s", tt.pattern, host)
			}
		}
	}
}

func TestRefusedPatterns(t *testing.T) {
	for text, want := range map[string]string{
		"":               "domain pattern is empty",
		"  ":             "domain pattern is empty",
		"http://a.test/": "unsupported domain pattern syntax: http://a.test/",
		"10.0.0.0/8":     "unsupported domain pattern syntax: 10.0.0.0/8",
		"a b":            "unsupported domain pattern syntax: a b",
		"{a,b}.test":     "unsupported domain pattern syntax: {a,b}.test",
		"a.test:x":       "unsupported domain pattern syntax: a.test:x",
		".a.test":        "unsupported domain pattern syntax: .a.test",
		"***.a.test":     "unsupported repeated wildcard: ***.a.test",
		"**":             "unsupported repeated wildcard: **",
		"a[b].test":      "brackets are only supported for IPv6 literals or [*]: a[b].test",
		"[1.2.3.4]":      "brackets are only supported for IPv6 literals or [*]: [1.2.3.4]",
	} {
		if _, err := parsePattern(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{"*", "[*]", "**.*", "*:80"} {
		if _, err := NewPolicy(Config{Domains: map[string]Permission{text: Deny}}); err == nil ||
			!strings.HasPrefix(err.Error(), "invalid value for network.denied_domains: "+text+" (") {
			t.Errorf("%s denied: %v", text, err)
		}
		if _, err := NewPolicy(Config{Domains: map[string]Permission{text: Allow}}); err != nil {
			t.Errorf("%s allowed: %v", text, err)
		}
	}
}

func TestHosts(t *testing.T) {
	for text, want := range map[string]string{
		"a.test": "a.test", " A.TEST. ": "a.test", "[::1]": "::1", "0:0::1": "::1", "::ffff:127.0.0.1": "127.0.0.1",
		"2130706433": "2130706433", "127.1": "127.1", "a_b.test": "a_b.test", "bücher.test": "bücher.test",
		"a.test..": "", ".a.test": "", "": "", ".": "", "a..b": "", "a b": "", "a\x00b": "", "[a.test]": "", "[::1": "", "fe80::1%eth0": "",
		"a/b": "", "a@b": "", "a:1": "", "*.a.test": "", "\xff.test": "",
		strings.Repeat("a", 254): "",
	} {
		if host, ok := normalHost(text); ok != (want != "") || ok && host != want {
			t.Errorf("%q: got host %q, ok %v; want ok %v, host %q", text, host, ok, want != "", want)
		}
	}
}

func TestPublicAddresses(t *testing.T) {
	for _, text := range strings.Fields(`0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.127.255.255 127.0.0.1 127.255.0.1 169.254.169.254
		172.16.0.1 172.31.255.255 192.0.0.1 192.0.2.1 192.168.1.1 198.18.0.1 198.19.0.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1
		255.255.255.255 :: ::1 fc00::1 fd00::1 fe80::1 fec0::1 ff02::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1 ::10.0.0.1
		64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b:1::8.8.8.8 2002:7f00:1:: 2002:a9fe:a9fe::1 2001::1 100::1 2001:db8::1 3fff::1 5f00::1`) {
		if public(netip.MustParseAddr(text)) {
			t.Errorf("%s is public", text)
		}
	}
	for _, text := range strings.Fields(`8.8.8.8 100.63.0.1 100.128.0.1 172.32.0.1 192.0.1.1 2606:4700::1 2a00::1 ::ffff:8.8.8.8
		64:ff9b::8.8.8.8 2002:808:808::1 2001:4860::1`) {
		if !public(netip.MustParseAddr(text)) {
			t.Errorf("%s is not public", text)
		}
	}
	if public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

// TestPatternsThatMatchNothing: a rule in a spelling that no host has is refused. Otherwise its
// owner would believe that it denies a host.
func TestPatternsThatMatchNothing(t *testing.T) {
	for text, matches := range map[string]bool{
		"bücher.test": false, "*.bücher.test": false, "b*ücher.test": false, "xn--bcher-kva.test": true,
		"93.184.216.034": false, "0x5d.0xb8.0xd8.0x22": false, "93.184.55330": false, "1572395042": false, "*.0x22": false, "93.184.216.0?": true,
		"93.184.*.07": false, "93.184.216.34": true, "93.184.216.*": true, "*.34": true, "*.0": true, "::ffff:93.184.216.34": true, "a.test": true, "*": true,
	} {
		_, deny := NewCeiling(CeilingConfig{Default: Allow, Deny: []string{text}})
		_, client := NewPolicy(Config{Domains: map[string]Permission{text: Deny}})
		_, review := NewPolicy(Config{Review: []string{text}})
		if got := []bool{deny == nil, client == nil || text == "*", review == nil}; slices.Contains(got, !matches) {
			t.Errorf("%s: accepted %v, want %v: %v", text, got, matches, deny)
		}
		// Codex CLI's executor accepts such a pattern in an allow rule, where it permits nothing.
		if _, err := NewPolicy(Config{Domains: map[string]Permission{text: Allow}}); err != nil {
			t.Errorf("%s allowed: %v", text, err)
		}
	}
}

// FuzzPattern: an accepted pattern without wildcards is a host in normal form that matches itself,
// and matching takes little time.
func FuzzPattern(f *testing.F) {
	for _, text := range []string{"a.test", "*.a.test", "**.a", "[::1]:80", "a?b*c", "[*]"} {
		f.Add(text, "a.test")
	}
	f.Fuzz(func(t *testing.T, text, host string) {
		p, err := parsePattern(text)
		if err != nil {
			return
		}
		if !p.glob {
			normal, ok := normalHost(p.text)
			if !ok || normal != p.text || !p.match(normal) {
				t.Fatalf("%q: %q is no normal host", text, p.text)
			}
		}
		if normal, ok := normalHost(host); ok {
			again, ok := normalHost(normal)
			if !ok || again != normal {
				t.Fatalf("%q becomes %q, and that %q", host, normal, again)
			}
			if p.everything() && !p.match(normal) {
				t.Fatalf("%q does not match %q", text, normal)
			}
		}
	})
}

func TestExemptHosts(t *testing.T) {
	for _, tt := range []struct {
		list, host string
		want       bool
	}{
		{"", "a.test", false}, {"*", "a.test", true}, {"a.test", "a.test", true}, {"a.test", "x.a.test", true},
		{".a.test", "x.a.test", true}, {"*.a.test", "x.a.test", true}, {"a.test", "xa.test", false},
		{"b.test, a.test:80", "a.test", true}, {"a.test:81", "a.test", false},
		{"10.0.0.0/8", "10.1.2.3", true}, {"10.0.0.0/8", "11.1.2.3", false}, {"10.1.2.3", "10.1.2.3", true},
		{"2.3", "10.1.2.3", false}, {"::1", "::1", true}, {",,", "a.test", false},
	} {
		if got := exempt(tt.list, tt.host, 80); got != tt.want {
			t.Errorf("NO_PROXY=%s %s: %v", tt.list, tt.host, got)
		}
	}
}
