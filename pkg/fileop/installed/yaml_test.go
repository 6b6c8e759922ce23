package installed

import (
	"encoding/json"
	"strings"
	"testing"
)

// plainValue returns a node as JSON would have it; every scalar is a string.
func plainValue(n *node) any {
	switch n.kind {
	case plain, quoted:
		return n.text
	case mapping:
		m := make(map[string]any)
		for _, p := range n.pairs {
			m[p.key] = plainValue(p.value)
		}
		return m
	case sequence:
		list := []any{}
		for _, item := range n.items {
			list = append(list, plainValue(item))
		}
		return list
	}
	return nil
}

func TestParseYAML(t *testing.T) {
	for text, want := range map[string]string{
		"":                                            `null`,
		"# only\n\n":                                  `null`,
		"a: b":                                        `{"a":"b"}`,
		"---\na: b # why\n":                           `{"a":"b"}`,
		"a:\nb: ~\nc: null\n":                         `{"a":null,"b":null,"c":null}`,
		"a: 'it''s'\nb: \"x\\ty\\u00e9\\/\"":          `{"a":"it's","b":"x\ty\u00e9/"}`,
		"a: \"one\n  two\"\nb: c":                     `{"a":"one two","b":"c"}`,
		"a: one\n  two\n  three\nb: c":                `{"a":"one two three","b":"c"}`,
		"a: |\n  x\n   y\n\n  z\nb: c":                `{"a":"x\n y\nz","b":"c"}`,
		"a: >-\n  x\n  y\n":                           `{"a":"x y"}`,
		"a: # none\n  b: c\n  d:\n    e: f":           `{"a":{"b":"c","d":{"e":"f"}}}`,
		"a:\n- b\n- c: d\n  e: f\n-\n  - g":           `{"a":["b",{"c":"d","e":"f"},["g"]]}`,
		"a:\n  - b\n  - - c\n    - d\n":               `{"a":["b",["c","d"]]}`,
		"a: [b, 'c, d', {e: f, \"g\": [h]}, ]\nb: {}": `{"a":["b","c, d",{"e":"f","g":["h"]}],"b":{}}`,
		"a: [b,\n  c]\nd: e":                          `{"a":["b","c"],"d":"e"}`,
		"a: it's\nb: x#y":                             `{"a":"it's","b":"x#y"}`,
		"'a b': c\n\"d: e\": f":                       `{"a b":"c","d: e":"f"}`,
		"a: http://x/y":                               `{"a":"http://x/y"}`,
		"a: b\n - c":                                  `{"a":"b - c"}`,
		"plain words":                                 `"plain words"`,
		"- a\n- b":                                    `["a","b"]`,
		"a: b\r\nc: d\r\n":                            `{"a":"b","c":"d"}`,
	} {
		n, err := parseYAML(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var expected any
		if err := json.Unmarshal([]byte(want), &expected); err != nil {
			t.Fatal(err)
		}
		got, _ := json.Marshal(plainValue(n))
		if again, _ := json.Marshal(expected); string(got) != string(again) {
			t.Errorf("%q: got %s, want %s", text, got, again)
		}
	}
}

// TestRefusedYAML: most of these are YAML, of which a part would be read wrongly,
// or becomes larger than it is.
func TestRefusedYAML(t *testing.T) {
	for _, text := range []string{
		"a: [b", "a: {b: c", "a: \"b", "a: 'b", "a: b: c", "a: b\n  c: d", "a: &x b\nc: *x", "a: !!str b", "\ta: b", "a:\n\tb: c",
		"a: |x\n  b", "a: \"b\" c", "a: [b] c", "a: {b}", "a: \"\\q\"", "a: b\nplain", "a: [b c", "a: @b", "a: [&b c]",
		strings.Repeat("- ", maxYAMLDepth+1) + "a", "a: " + strings.Repeat("[", maxYAMLDepth+1) + strings.Repeat("]", maxYAMLDepth+1),
		"a: " + strings.Repeat("x", maxYAML), "a: \"" + strings.Repeat("\n", maxContinued+2) + "\"",
		"a: [" + strings.Repeat("\n", maxContinued+2) + "]", "a: b" + strings.Repeat("\n c", maxContinued+2),
	} {
		if n, err := parseYAML(text); err == nil {
			got, _ := json.Marshal(plainValue(n))
			t.Errorf("%.60q: got %s", text, got)
		}
	}
}

// FuzzParseYAML compares texts that are JSON as well, which is YAML, with the
// JSON; for others it shows that the parser ends.
func FuzzParseYAML(f *testing.F) {
	for _, s := range []string{"a: b\n- c", "a: |\n x\n", `{"a": ["b", {"c": "d"}]}`, "- - - a", "a: [\"b\", 'c'] # d", "a:\n- b:\n  c: >\n   d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := parseYAML(text)
		var want map[string]map[string]string
		if err != nil || json.Unmarshal([]byte(text), &want) != nil || strings.ContainsAny(text, "\\\n\r\t") {
			return
		}
		if n.kind != mapping || len(n.pairs) < len(want) {
			t.Fatalf("%q: got %v", text, plainValue(n))
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
