package pathuri

import (
	"errors"
	"path"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"/a/b":                 "/a/b",
		"/a//./c/../b/":        "/a/b",
		"/../..":               "/",
		"~":                    "/home/u",
		"~/x":                  "/home/u/x",
		"/a%20b":               "/a%20b",
		"file:///a/b":          "/a/b",
		"file:/a/b":            "/a/b",
		"file:a/b":             "/a/b",
		"FILE://localhost/a":   "/a",
		"file://LOCALHOST":     "/",
		"  file:///a ":         "/a",
		"file:///a%20b%25%2F":  "/a b%",
		"file:///a/%2e%2E/b":   "/b",
		"file:///a%2fb":        "/a/b",
		"file:////a//b":        "/a/b",
		"file:///%C3%A9/é":     "/é/é",
		"file:///bad%ff":       "/bad\xff",
		"file:///100%":         "/100%",
		"file:///%zz":          "/%zz",
		"file:///c%3A/x":       "/c:/x",
		"file:///cd:/x":        "/cd:/x",
		"file:///a\\b":         "/a/b",
		"/a\\b":                "/a\\b",
		"file:///~+&;=@:!$|^[": "/~+&;=@:!$|^[",
	} {
		got, err := Parse(in, "/home/u")
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, tt := range []struct {
		in, text string
		host     bool
	}{
		{"", "path is not absolute: ", false},
		{"f", "path is not absolute: f", false},
		{"./f", "path is not absolute: ./f", false},
		{"~other/f", "path is not absolute: ~other/f", false},
		{":x", "path is not absolute: :x", false},
		{"1a:x", "path is not absolute: 1a:x", false},
		{"https://x/f", "unsupported path URI scheme `https`", false},
		{`C:\f`, "unsupported path URI scheme `c`", false},
		{"file:///f?x", "query parameters are not allowed in path URIs", false},
		{"file:///f#x?y", "fragments are not allowed in path URIs", false},
		{"file:///a%00b", "'file:///a%00b' is invalid on 'linux'", false},
		{"file://host/f", "'file://host/f' is invalid on 'linux'", true},
		{"file:///c:/f", "'file:///c:/f' is invalid on 'linux'", true},
		{"file:///c:", "'file:///c:' is invalid on 'linux'", true},
		{"/a\x00b", "'/a\x00b' is invalid on 'linux'", true},
	} {
		_, err := Parse(tt.in, "/home/u")
		var host *HostError
		var syntax *SyntaxError
		if err == nil || err.Error() != tt.text || errors.As(err, &host) != tt.host || errors.As(err, &syntax) == tt.host {
			t.Errorf("Parse(%q): %T %v; want %q", tt.in, err, err, tt.text)
		}
	}
	if _, err := Parse("~/x", ""); err == nil {
		t.Error("a tilde without a home was accepted")
	}
}

func TestFormat(t *testing.T) {
	for in, want := range map[string]string{
		"/":                             "file:///",
		"/a b\t":                        "file:///a%20b%09",
		"/é\xff":                        "file:///%C3%A9%FF",
		"/~+&;=@:!$|^[]'()*,":           "file:///~+&;=@:!$|^[]'()*,",
		"/\"#%<>?`{}\\":                 "file:///%22%23%25%3C%3E%3F%60%7B%7D%5C",
		"/c:/x":                         "file:///c%3A/x",
		"/" + strings.Repeat("x", 5000): "file:///" + strings.Repeat("x", 5000),
	} {
		if got := Format(in); got != want {
			t.Errorf("Format(%q) = %q, want %q", in, got, want)
		}
	}
}

// FuzzParse checks that whatever is accepted is a clean absolute path that
// survives the way out and back.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"/a/../b", "file:///a%2fb", "file://localhost/c:/", "~/x", "file:%00", "file:///c%3a/", "FILE:\\\\h\\x", " file:x\n", "/c:/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Parse(s, "/home/u")
		if err != nil {
			return
		}
		if !path.IsAbs(p) || path.Clean(p) != p || strings.IndexByte(p, 0) >= 0 {
			t.Fatalf("Parse(%q) = %q", s, p)
		}
		if again, err := Parse(Format(p), ""); err != nil || again != p {
			t.Fatalf("%q became %q, %v", p, again, err)
		}
		if again, err := Parse(p, ""); err != nil || again != p {
			t.Fatalf("native %q became %q, %v", p, again, err)
		}
	})
}
