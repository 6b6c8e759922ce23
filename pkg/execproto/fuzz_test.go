package execproto

import (
	"encoding/json"
	"testing"
)

func FuzzDecodeEmpty(f *testing.F) {
	for _, s := range []string{`null`, `{}`, `[]`, `{"a":1}`, ` { } `} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if DecodeEmpty(text) != nil {
			return
		}
		var v map[string]any
		if err := json.Unmarshal(text, &v); text != nil && (err != nil || len(v) > 0) {
			t.Fatalf("accepted %q", text)
		}
	})
}
