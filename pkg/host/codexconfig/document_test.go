package codexconfig

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

func TestSelection(t *testing.T) {
	const tables = "a = 1 # note\nb = 2\n[t]\nx = 1\ny = [1,2]\n[t.u]\nz = \"q\"\n"
	for _, c := range []struct {
		name, document string
		paths          [][]string
		want           string
	}{
		{"a value", tables, [][]string{{"a"}}, "a = 1\n"},
		{"below tables", tables, [][]string{{"t", "u", "z"}}, "[t.u]\nz = \"q\"\n"},
		{"several", tables, [][]string{{"t", "x"}, {"b"}, {"none"}}, "b = 2\n\n[t]\nx = 1\n"},
		{"nothing", tables, [][]string{{"none"}, {"A"}, {""}}, ""},
		{"a missing key of a table", tables, [][]string{{"t", "none"}}, "[t]\n"},
		{"a wider path last", tables, [][]string{{"t", "x"}, {"t"}}, "[t]\nx = 1\ny = [1, 2]\n\n[t.u]\nz = \"q\"\n"},
		{"a wider path first", tables, [][]string{{"t"}, {"t", "x"}}, "[t]\nx = 1\ny = [1, 2]\n\n[t.u]\nz = \"q\"\n"},
		{"literal keys", "[\"a.b\"]\nx = 1\n[a]\nb = 2\n", [][]string{{"a.b"}}, "[\"a.b\"]\nx = 1\n"},
		{"through a value", "a = 'v'\nl = [1]\n", [][]string{{"a", "b", "c"}, {"l", "0"}}, "a = \"v\"\nl = [1]\n"},
		{"an empty key", "\"\" = 1\n", [][]string{{""}}, "\"\" = 1\n"},
		{"dotted keys", "a.b.c = 1\na.d = 2\n", [][]string{{"a"}}, "[a]\nd = 2\n\n[a.b]\nc = 1\n"},
		{"inline tables", "a = {b = 1, c.d = {}}\n", [][]string{{"a", "c"}, {"a", "b"}}, "a = { b = 1, c = { d = {} } }\n"},
		{"part of an inline table", "a = {b = 1, c = 2}\n", [][]string{{"a", "c"}}, "a = { c = 2 }\n"},
		{"tables in arrays", "[[a]]\nx = 1\n[a.b]\ny = 2\n[[a]]\n", [][]string{{"a", "x"}}, "[[a]]\nx = 1\n\n[a.b]\ny = 2\n\n[[a]]\n"},
		{"spellings stay", "a = 0x1F\nb = 1_000\nc = 1979-05-27 07:32:00\nd = inf\n", [][]string{{"a"}, {"b"}, {"c"}, {"d"}},
			"a = 0x1F\nb = 1_000\nc = 1979-05-27 07:32:00\nd = inf\n"},
		{"strings", "a = \"\"\"\nx\\u0001\"\\\\\n\"\"\"\n", [][]string{{"a"}}, "a = \"x\\u0001\\\"\\\\\\n\"\n"},
		{"comments in arrays", "a = [ # one\n 1, # two\n [2],\n]\n", [][]string{{"a"}}, "a = [1, [2]]\n"},
	} {
		d, err := parse("f", []byte(c.document))
		if err != nil {
			t.Errorf("%s: got error %v, want no error", c.name, err)
			continue
		}
		got, err := render(newSelection(c.paths).of(d.root), maxSelected)
		if err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

func TestRefusedDocuments(t *testing.T) {
	for _, c := range []struct{ document, want string }{
		{"a = 1\nbad = = x\n", "f:2:7: "},
		{"a = 1\na = 2\n", "f:2:1: "},
		{"a = \"\377\"\n", "not UTF-8"},
		{"a = " + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth), errDepth.Error()},
		{"a = " + strings.Repeat("{a=", maxDepth) + "1" + strings.Repeat("}", maxDepth), errDepth.Error()},
		{strings.Repeat("a.", maxDepth) + "a = 1", errDepth.Error()},
		{"[" + strings.Repeat("a.", maxDepth) + "a]", errDepth.Error()},
	} {
		if _, err := parse("f", []byte(c.document)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: got error %v, want %q in it", c.document, err, c.want)
		}
	}
}

func TestErrorsHoldNoText(t *testing.T) {
	_, err := parse("f", []byte("token = \"secret-word\" x\n"))
	if err == nil || strings.Contains(err.Error(), "secret-word") {
		t.Errorf("got error %v, want one without the line", err)
	}
}

func TestSelectedTextIsBounded(t *testing.T) {
	key := strings.Repeat("k", 1000)
	var b strings.Builder
	fmt.Fprintf(&b, "[%s]\n", strings.Repeat(key+".", 100)+"a")
	for i := range 100 {
		fmt.Fprintf(&b, "x%d.y = 1\n", i)
	}
	d, err := parse("f", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := render(d.root, maxSelected); err != errSelected {
		t.Errorf("got error %v, want %v", err, errSelected)
	}
}

// FuzzDocument checks that a printed document means the same as its source.
func FuzzDocument(f *testing.F) {
	for _, text := range []string{
		"", "a = 1\n", "[a.b]\nc.d = {e = [1, {f = ''}]}\n[[x]]\n[x.y]\nz = 1\n[[x]]\n", "a.b = 1\na.c = 2\n[a.d]\n",
		"[[a]]\n[[a.b]]\n[a.b.c]\nx = 1\n", "'' = {}\n\"a.b\" = 07:32:00.5\n", "a = \"\"\"\n\\\n  x\u007f\"\"\"\n", "x = [[], [{}]]",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := parse("f", text)
		if err != nil {
			return
		}
		printed, err := render(d.root, maxSelected)
		if err != nil {
			return
		}
		var again map[string]any
		if err := toml.Unmarshal([]byte(printed), &again); err != nil {
			t.Fatalf("%q was printed as %q: %v", text, printed, err)
		}
		if got, want := fmt.Sprint(again), fmt.Sprint(d.values); got != want {
			t.Fatalf("%q was printed as %q: got %s, want %s", text, printed, got, want)
		}
		if part, err := render(newSelection([][]string{{"a", "b"}}).of(d.root), maxSelected); err == nil && len(part) > len(printed)+1 {
			t.Fatalf("part %q is longer than %q", part, printed)
		}
	})
}
