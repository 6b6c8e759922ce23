package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

type (
	hidden struct {
		Hidden
		Key   string
		token Text
	}
	unprinted struct {
		Unprinted
		Key   string `json:"key"`
		bytes []byte
	}
	nested struct {
		Unprinted
		inner unprinted
	}
)

// TestNothingPrintsTheText prints and logs values that contain a credential,
// with all verbs, alone, behind pointers and inside of others.
func TestNothingPrintsTheText(t *testing.T) {
	const text = "sk-secret"
	h := hidden{Key: text, token: text}
	u := unprinted{Key: text, bytes: []byte(text)}
	for name, tt := range map[string]struct {
		v       any
		encodes bool // encoding to JSON is the purpose of the type
	}{
		"text": {Text(text), false}, "hidden": {h, false}, "pointer to hidden": {&h, false},
		"unprinted": {u, true}, "pointer to unprinted": {&u, true}, "nested": {nested{inner: u}, true},
	} {
		var out strings.Builder
		for _, v := range []any{tt.v, &tt.v, struct{ V any }{tt.v}, []any{tt.v}, map[string]any{"v": tt.v}} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
				fmt.Fprintf(&out, verb+"\n", v)
			}
			slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", v)
			if encoded, err := json.Marshal(v); !tt.encodes {
				fmt.Fprintf(&out, "%s %v\n", encoded, err)
			}
		}
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "v", tt.v)
		for _, spelling := range []string{text, hex.EncodeToString([]byte(text)), strings.ToUpper(hex.EncodeToString([]byte(text))),
			base64.StdEncoding.EncodeToString([]byte(text)), strings.Trim(fmt.Sprint([]byte(text)), "[]")} {
			if strings.Contains(out.String(), spelling) {
				t.Errorf("%s prints %q in\n%s", name, spelling, out.String())
			}
		}
		if !strings.Contains(out.String(), Redacted) {
			t.Errorf("%s prints nothing as %s:\n%s", name, Redacted, out.String())
		}
	}
}

// TestUnprintedIsEncoded encodes and decodes a request with a credential: the credential must
// be sent.
func TestUnprintedIsEncoded(t *testing.T) {
	text, err := json.Marshal(unprinted{Key: "sk-secret"})
	if want := `{"key":"sk-secret"}`; err != nil || string(text) != want {
		t.Errorf("it encodes as %s, %v, want %s", text, err, want)
	}
	var got unprinted
	if err := json.Unmarshal(text, &got); err != nil || got.Key != "sk-secret" {
		t.Errorf("it decodes with the key %q, %v", got.Key, err)
	}
}

// TestReveal: Reveal returns the text.
func TestReveal(t *testing.T) {
	if got := Text("sk-secret").Reveal(); got != "sk-secret" {
		t.Errorf("it reveals %q", got)
	}
}
