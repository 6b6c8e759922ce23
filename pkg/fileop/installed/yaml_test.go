package installed

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParseYAML(t *testing.T) {
	n, err := parseYAML("---\na: 'it''s' # why\nb: ~\nc:\n- d\n- {e: [f]}\ng: >-\n  x\n  y\nh: TRUE\ni: \"true\"\na: again\n")
	if err != nil {
		t.Fatal(err)
	}
	text := func(n *node) string {
		s, ok := n.scalar()
		if !ok {
			return "none"
		}
		return s
	}
	list := n.get("c").items()
	if len(list) != 2 {
		t.Fatalf("%d items", len(list))
	}
	for got, want := range map[string]string{
		text(n.get("a")): "again", text(n.get("b")): "none", text(list[0]): "d", text(list[1].get("e").items()[0]): "f",
		text(n.get("g")): "x y", text(n.get("c")): "none", text(n.get("nosuch").get("x")): "none",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if value, ok := n.get("h").boolean(); !value || !ok {
		t.Error("TRUE is not true")
	}
	if _, ok := n.get("i").boolean(); ok {
		t.Error("a string is a boolean")
	}
	if n, err := parseYAML("# only\n"); n != nil || err != nil {
		t.Errorf("an empty document: %v, %v", n, err)
	}
}

// TestRefusedYAML has texts that are not YAML, and texts that would expand to much more than
// their size.
func TestRefusedYAML(t *testing.T) {
	for _, text := range []string{
		"a: [b", "a: {b: c", "a: \"b", "a: 'b", "a: b: c", "a: &x b\nc: *x", "a: \"\\q\"", "a: @b",
		"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]",
		strings.Repeat("- ", maxYAMLDepth+1) + "a", "a: " + strings.Repeat("[", maxYAMLDepth+1) + strings.Repeat("]", maxYAMLDepth+1),
		"a: " + strings.Repeat("x", maxYAML),
	} {
		if _, err := parseYAML(text); err == nil {
			t.Errorf("%.60q was accepted", text)
		}
	}
}

// FuzzParseYAML parses texts that are also JSON, a subset of YAML, and compares the result with
// that of encoding/json. For other texts it checks that the parser returns.
func FuzzParseYAML(f *testing.F) {
	for _, s := range []string{"a: b\n- c", "a: |\n x\n", `{"a": ["b", {"c": "d"}]}`, "- - - a", "a: [\"b\", 'c'] # d", "a:\n- b:\n  c: >\n   d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := parseYAML(text)
		var want map[string]map[string]string
		if err != nil || n == nil || json.Unmarshal([]byte(text), &want) != nil || strings.ContainsAny(text, "\\\n\r\t") {
			return
		}
		for key, inner := range want {
			for name, value := range inner {
				if got, ok := n.get(key).get(name).scalar(); !ok || got != value {
					t.Errorf("%q: %s.%s is %q, want %q", text, key, name, got, value)
				}
			}
		}
	})
}
