package relay

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDescriptionHeader(t *testing.T) {
	for _, tt := range []struct {
		in          Description
		name, agent string
		back        Description
	}{
		{Description{}, "", "", Description{}},
		{Description{"build-1", "codex/1.2.3"}, "build-1", "codex/1.2.3", Description{"build-1", "codex/1.2.3"}},
		{Description{"Büro 1%", "codex/ä\n"}, "B%C3%BCro%201%25", "codex/__", Description{"Büro 1%", "codex/__"}},
		{Description{"a\r\nHost: b", ""}, "a%EF%BF%BD%EF%BF%BDHost:%20b", "", Description{Name: "a\uFFFD\uFFFDHost: b"}},
	} {
		h := tt.in.Header()
		if h.Get(NameHeader) != tt.name || h.Get("User-Agent") != tt.agent {
			t.Errorf(`%+v: got %v; want h.Get(NameHeader) %v, h.Get("User-Agent") %v`, tt.in, h, tt.name, tt.agent)
		}
		if got := ReadDescription(h); got != tt.back {
			t.Errorf("%+v comes back as %+v", tt.in, got)
		}
	}
}

func TestReadDescription(t *testing.T) {
	for value, want := range map[string]string{
		"":                       "",
		"  box  ":                "box",
		"100%":                   "100%", // not escaped
		"%1b[31mred":             "\uFFFD[31mred",
		"%E2%80%AEgnp.exe":       "\uFFFDgnp.exe", // turns the direction
		"%ff":                    "\uFFFD",
		strings.Repeat("x", 65):  strings.Repeat("x", 64) + "…",
		strings.Repeat("ä", 1e5): strings.Repeat("ä", 32) + "…",
	} {
		if got := ReadDescription(http.Header{NameHeader: {value}}).Name; got != want {
			t.Errorf("%.20q: %q, want %q", value, got, want)
		}
	}
}

func FuzzReadDescription(f *testing.F) {
	f.Add("box", "codex/1")
	f.Add("%E2%80%AE%0a", "\x1b[2J\xff")
	f.Fuzz(func(t *testing.T, name, agent string) {
		d := ReadDescription(http.Header{NameHeader: {name}, "User-Agent": {agent}})
		for _, text := range []string{d.Name, d.Agent} {
			if len(text) > MaxDescribedAgent+len("…") || len(d.Name) > maxDescribedName+len("…") || !utf8.ValidString(text) || strings.ContainsAny(text, "\r\n\x1b\u202e") {
				t.Errorf("got %q; want len(text) at most %v, len(d.Name) at most %v, utf8.ValidString(text), a text with none of %q", text, MaxDescribedAgent+len("…"), maxDescribedName+len("…"), "\r\n\x1b\u202e")
			}
		}
		if again := ReadDescription(d.Header()); again.Name != d.Name && len(d.Name) <= maxDescribedName {
			t.Errorf("%q comes back as %q", d.Name, again.Name)
		}
	})
}
