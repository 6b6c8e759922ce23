package pathuri

import (
	"errors"
	"path"
	"strings"
	"testing"
)

const home = "/home/u"

func TestParse(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"native", "/a/b", "/a/b"},
		{"native, resolved by spelling", "/a//./c/../b/", "/a/b"},
		{"native, above the root", "/../..", "/"},
		{"native, two slashes are no host", "//host/share", "/host/share"},
		{"native, percent signs are names", "/a%20b", "/a%20b"},
		{"native, backslashes are names", `/a\b`, `/a\b`},
		{"native, question and hash marks are names", "/a?b#c", "/a?b#c"},
		{"native, drives are names", "/c:/x", "/c:/x"},
		{"home", "~", "/home/u"},
		{"below home", "~/x", "/home/u/x"},
		{"below home, resolved by spelling", "~//../x/.", "/home/x"},

		{"URI", "file:///a/b", "/a/b"},
		{"URI without authority", "file:/a/b", "/a/b"},
		{"URI without a slash", "file:a/b", "/a/b"},
		{"URI, relative dots", "file:../a/./b", "/a/b"},
		{"URI of nothing", "file:", "/"},
		{"URI of an empty host", "file://", "/"},
		{"URI, scheme in any case", "FILE:///a", "/a"},
		{"URI, localhost", "file://localhost/a", "/a"},
		{"URI, localhost in any case, no path", "file://LOCALHOST", "/"},
		{"URI, localhost escaped", "file://%6cocalhost/a", "/a"},
		{"URI, localhost as a segment", "file:/localhost/a", "/localhost/a"},
		{"URI, blanks around", " \v\x00file:///a \n", "/a"},
		{"URI, tabs and line ends within", "fi\nle:\r///a\tb", "/ab"},
		{"URI, escapes", "file:///a%20b%25%23%3F", "/a b%#?"},
		{"URI, escaped slash", "file:///a%2fb", "/a/b"},
		{"URI, escaped dots", "file:///a/%2e%2E/.%2e/b/%2e", "/b"},
		{"URI, dots between escaped slashes", "file:///a%2F..%2Fb", "/b"},
		{"URI, doubled slashes", "file:////a//b/", "/a/b"},
		{"URI, an empty segment counts for dots", "file:///a//../b", "/a/b"},
		{"URI, UTF-8 plain and escaped", "file:///%C3%A9/é", "/é/é"},
		{"URI, bytes that are no UTF-8", "file:///bad%ff", "/bad\xff"},
		{"URI, percent sign at the end", "file:///100%", "/100%"},
		{"URI, incomplete escape", "file:///%2", "/%2"},
		{"URI, escape that is none", "file:///%zz", "/%zz"},
		{"URI, tilde is a name", "file:///~/x", "/~/x"},
		{"URI, backslashes", `file:\\\a\b`, "/a/b"},
		{"URI, what needs no escape", "file:///~+&;=@:!$|^['(),*]", "/~+&;=@:!$|^['(),*]"},
		{"URI, escaped colon is no drive", "file:///c%3A/x", "/c:/x"},
		{"URI, escaped letter is no drive", "file:///%63:/x", "/c:/x"},
		{"URI, bar is no drive", "file:///c|/x", "/c|/x"},
		{"URI, two letters are no drive", "file:///cd:/x", "/cd:/x"},
		{"URI, letter and name are no drive", "file:///c:x", "/c:x"},
		{"URI, drive in another place", "file:///a/c:/x", "/a/c:/x"},
		{"URI, drive after an empty segment", "file:///a//../c:/x", "/a/c:/x"},
	} {
		got, err := Parse(tt.in, home)
		if err != nil || got != tt.want {
			t.Errorf("%s: Parse(%q) = %q, %v; want %q", tt.name, tt.in, got, err, tt.want)
		}
	}
}

func TestParseRefusesWhatIsNoPath(t *testing.T) {
	for in, want := range map[string]string{
		"":                     "path is not absolute: ",
		"f":                    "path is not absolute: f",
		"./f":                  "path is not absolute: ./f",
		" /f":                  "path is not absolute:  /f",
		"~other/f":             "path is not absolute: ~other/f",
		"~\x00":                "path is not absolute: ~\x00",
		":x":                   "path is not absolute: :x",
		"1a:x":                 "path is not absolute: 1a:x",
		"file\x00:x":           "path is not absolute: file\x00:x",
		"\u00a0file:///x":      "path is not absolute: \u00a0file:///x",
		"https://x/f":          "unsupported path URI scheme `https`",
		"HTTP://x?y":           "unsupported path URI scheme `http`",
		"a+b.c-1:x":            "unsupported path URI scheme `a+b.c-1`",
		`C:\f`:                 "unsupported path URI scheme `c`",
		"file:///f?x":          "query parameters are not allowed in path URIs",
		"file:///f?":           "query parameters are not allowed in path URIs",
		"file:///f?#":          "query parameters are not allowed in path URIs",
		"file:///f#x?y":        "fragments are not allowed in path URIs",
		"file://host#":         "fragments are not allowed in path URIs",
		"file:///%00?":         "query parameters are not allowed in path URIs",
		"file:///a%00b":        "'file:///a%00b' is invalid on 'linux'",
		"file://host/%00":      "'file://host/%00' is invalid on 'linux'",
		"file:///c:/%00":       "'file:///c:/%00' is invalid on 'linux'",
		"file://localhost:80/": "invalid URI: invalid host in file://localhost:80/",
		"file://u@localhost/":  "invalid URI: invalid host in file://u@localhost/",
		"file://a b/x":         "invalid URI: invalid host in file://a b/x",
		"file://h%00/":         "invalid URI: invalid host in file://h%00/",
	} {
		_, err := Parse(in, home)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || err.Error() != want {
			t.Errorf("Parse(%q): %T %v; want the syntax error %q", in, err, err, want)
		}
	}
}

func TestParseRefusesWhatIsNotHere(t *testing.T) {
	for in, want := range map[string]string{
		"file://host/f":          "'file://host/f' is invalid on 'linux'",
		"FILE://HO%53T/a/%2e/é ": "'file://host/a/%C3%A9' is invalid on 'linux'",
		`file://host\a b`:        "'file://host/a%20b' is invalid on 'linux'",
		"file://127.0.0.1/f":     "'file://127.0.0.1/f' is invalid on 'linux'",
		"file://[::1]/f":         "'file://[::1]/f' is invalid on 'linux'",
		"file://localhost./f":    "'file://localhost./f' is invalid on 'linux'",
		"file:///c:/f":           "'file:///c:/f' is invalid on 'linux'",
		"file:///C:":             "'file:///C:' is invalid on 'linux'",
		"file://localhost/c:/f":  "'file:///c:/f' is invalid on 'linux'",
		"file://c:/f":            "'file:///c:/f' is invalid on 'linux'",
		"file:c:/f":              "'file:///c:/f' is invalid on 'linux'",
		"file:////c:/f":          "'file:///c:/f' is invalid on 'linux'",
		"file:///./c:/f":         "'file:///c:/f' is invalid on 'linux'",
		"file:///a/../c:/f":      "'file:///c:/f' is invalid on 'linux'",
		"file:///c:/../f":        "'file:///c:/f' is invalid on 'linux'",
		"/a\x00b":                "file name contained an unexpected NUL byte",
		"~/\x00":                 "file name contained an unexpected NUL byte",
	} {
		_, err := Parse(in, home)
		var host *HostError
		if !errors.As(err, &host) || err.Error() != want {
			t.Errorf("Parse(%q): %T %v; want the host error %q", in, err, err, want)
		}
	}
}

func TestTildeNeedsAHome(t *testing.T) {
	for _, unusable := range []string{"", "relative"} {
		var syntax *SyntaxError
		if p, err := Parse("~/x", unusable); !errors.As(err, &syntax) {
			t.Errorf("with home %q: %q, %v", unusable, p, err)
		}
	}
}

func TestParseLimit(t *testing.T) {
	longest := "/" + strings.Repeat("x", MaxLength-1)
	if got, err := Parse(longest, home); err != nil || got != longest {
		t.Errorf("the longest path: %d bytes, %v", len(got), err)
	}
	var syntax *SyntaxError
	_, err := Parse(longest+"x", home)
	if !errors.As(err, &syntax) || len(err.Error()) > maxShown+100 {
		t.Errorf("one byte more: %T of %d bytes", err, len(err.Error()))
	}
	_, err = Parse(strings.Repeat("x", MaxLength), home)
	if !errors.As(err, &syntax) || len(err.Error()) > maxShown+100 {
		t.Errorf("a long relative path: %T of %d bytes", err, len(err.Error()))
	}
}

func TestFormat(t *testing.T) {
	for in, want := range map[string]string{
		"/":                             "file:///",
		"/a b\t":                        "file:///a%20b%09",
		"/é\xff":                        "file:///%C3%A9%FF",
		"/~+&;=@:!$|^[]'()*,":           "file:///~+&;=@:!$|^[]'()*,",
		"/\"#%<>?`{}\\\x7f":             "file:///%22%23%25%3C%3E%3F%60%7B%7D%5C%7F",
		"/c:/x":                         "file:///c%3A/x",
		"/c:":                           "file:///c%3A",
		"/cc:/c:":                       "file:///cc:/c:",
		"/" + strings.Repeat("x", 5000): "file:///" + strings.Repeat("x", 5000),
	} {
		if got := Format(in); got != want {
			t.Errorf("Format(%q) = %q, want %q", in, got, want)
		}
	}
}

// FuzzParse checks that an accepted path is clean and absolute without a NUL,
// that its URI leads back to it, and that this URI is canonical.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"/a/../b", "file:///a%2fb", "file://localhost/c:/", "~/x", "file:%00", "file:///c%3a/", `FILE:\\h\x`,
		" file:x\n", "/c:/", "file://c:/../x", "file:///%2e%2E/%", "file://[::1]/", "file:///a//../c:/x", "/\xff\x01\\?#%",
		"file:///c:%2f..%2fx", "~", "https://x", "file:///a?b#c", "~/\x00",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Parse(s, home)
		if err != nil {
			if err.Error() == "" {
				t.Fatalf("Parse(%q) fails without a word", s)
			}
			return
		}
		if !path.IsAbs(p) || path.Clean(p) != p || strings.IndexByte(p, 0) >= 0 {
			t.Fatalf("Parse(%q) = %q", s, p)
		}
		uri := Format(p)
		again, err := Parse(uri, "")
		if err != nil || again != p || Format(again) != uri {
			t.Fatalf("%q became %q, then %q, %v", p, uri, again, err)
		}
		if again, err := Parse(p, ""); err != nil || again != p {
			t.Fatalf("native %q became %q, %v", p, again, err)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("file:///home/user/project/src/main%20file.go", home); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFormat(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_ = Format("/home/user/project/src/main file.go")
	}
}
