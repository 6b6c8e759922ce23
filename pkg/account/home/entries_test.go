package home

import (
	"reflect"
	"strings"
	"testing"
)

func TestEntries(t *testing.T) {
	got, err := Entries([]byte("# a\nb = 'x'\n\n\"c d\" = 3\n  e-f = [true]\n"))
	want := []Entry{{"b", "x", 2, 1}, {"c d", int64(3), 4, 1}, {"e-f", []any{true}, 5, 3}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, error %v; want no error, %v", got, err, want)
	}
	for text, want := range map[string]string{
		"a = 1\n[b]\nc = 2": "2:2: `b` is a table", "a = 1\nb.c = 2": "2:1: `b` is a table", "[[x]]": "1:3: `x` is a table",
		"a = 1\na = 2": "2:1: ", "a = ": "1:", "a = 'x\n": "1:",
	} {
		if got, err := Entries([]byte(text)); err == nil || got != nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, error %v; want nil, error beginning with %q", text, got, err, want)
		}
	}
}

// FuzzEntries: a document gives either entries with their positions, or an error.
func FuzzEntries(f *testing.F) {
	for _, s := range []string{"a = 1", "a = 'x'\n\"b c\" = [1, 'x']\n", "[t]\na = 1", "a.b = 1", "[[t]]", "a = {b = 1}", "\"\\u0000\" = 1", "a = 1979-05-27"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := Entries(text)
		if err != nil {
			return
		}
		lines := strings.Count(string(text), "\n") + 1
		for _, e := range entries {
			if e.Value == nil || e.Line < 1 || e.Line > lines || e.Column < 1 {
				t.Errorf("%q: got %+v; want e.Value that is not nil, e.Line at least 1, e.Line at most %v, e.Column at least 1", text, e, lines)
			}
		}
	})
}
