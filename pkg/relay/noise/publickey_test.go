package noise

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestKeyDocument(t *testing.T) {
	key := identity(t).PublicKey()
	text := string(key.AppendJSON(nil))
	dh := base64.StdEncoding.EncodeToString(key.dh[:])
	kem := base64.StdEncoding.EncodeToString(key.kem[:])
	if want := `{"suite":"Noise_hybridIK_X25519+MLKEM768_AESGCM_SHA256","x25519_public_key":"` + dh + `","mlkem768_public_key":"` + kem + `"}`; text != want {
		t.Fatalf("the document is %s", text)
	}
	// The last symbol before the padding has bits that must be zero.
	symbols := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	trailing := dh[:42] + string(symbols[strings.IndexByte(symbols, dh[42])|1]) + "="
	reversed := `{"mlkem768_public_key":"` + kem + `","x25519_public_key":"` + dh + `","suite":"` + suite + `"}`
	const invalid = "invalid Noise channel public key: "
	for _, tt := range []struct{ name, text, want string }{
		{"as written", text, ""},
		{"other order", reversed, ""},
		{"blanks", " " + strings.ReplaceAll(text, ",", " ,\n") + " ", ""},
		{"escapes", strings.Replace(text, "Noise", `\u004eoise`, 1), ""},
		{"suite", strings.Replace(text, "hybridIK_X", "hybridIK_", 1), invalid + "unsupported Noise channel suite"},
		{"no base64", strings.Replace(text, dh, "***", 1), invalid + "invalid X25519 public key"},
		{"unpadded", strings.Replace(text, dh, strings.TrimRight(dh, "="), 1), invalid + "invalid X25519 public key"},
		{"trailing bits", strings.Replace(text, dh, trailing, 1), invalid + "invalid X25519 public key"},
		{"newline", strings.Replace(text, dh, dh[:4]+`\n`+dh[4:], 1), invalid + "invalid X25519 public key"},
		{"final newline", strings.Replace(text, dh, dh+`\n`, 1), invalid + "invalid X25519 public key"},
		{"URL alphabet", strings.Replace(text, dh, "_"+dh[1:], 1), invalid + "invalid X25519 public key"},
		{"short", strings.Replace(text, dh, "AAAA", 1), invalid + "invalid X25519 public key length"},
		{"empty", strings.Replace(text, dh, "", 1), invalid + "invalid X25519 public key length"},
		{"long", strings.Replace(text, dh, kem, 1), invalid + "invalid X25519 public key length"},
		{"no base64, ML-KEM", strings.Replace(text, kem, "A", 1), invalid + "invalid ML-KEM-768 public key"},
		{"short, ML-KEM", strings.Replace(text, kem, dh, 1), invalid + "invalid ML-KEM-768 public key length"},
		{"missing", `{"suite":"` + suite + `","x25519_public_key":"` + dh + `"}`, "public key of a Noise channel: missing field `mlkem768_public_key`"},
		{"nothing", `{}`, "public key of a Noise channel: missing field `suite`"},
		{"unknown", strings.Replace(text, "{", `{"x":1,`, 1), "public key of a Noise channel: unknown field `x`"},
		{"other case", strings.Replace(text, `"suite"`, `"Suite"`, 1), "public key of a Noise channel: unknown field `Suite`"},
		{"twice", strings.Replace(text, "{", `{"suite":"`+suite+`",`, 1), "public key of a Noise channel: duplicate field `suite`"},
	} {
		got := PublicKey{dh: [dhSize]byte{1}}
		err := json.Unmarshal([]byte(tt.text), &got)
		switch {
		case tt.want == "" && (err != nil || got != key):
			t.Errorf("%s: got error %v; want no error, %v", tt.name, err, key)
		case tt.want != "" && (err == nil || err.Error() != tt.want):
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		case tt.want != "" && errors.Is(err, ErrPublicKey) != strings.HasPrefix(tt.want, invalid):
			t.Errorf("%s: is ErrPublicKey: %v", tt.name, errors.Is(err, ErrPublicKey))
		case tt.want != "" && got != PublicKey{dh: [dhSize]byte{1}}:
			t.Errorf("%s: the key was changed", tt.name)
		}
	}
	for _, text := range []string{"", "null", "[]", `"x"`, `{"suite":null}`, `{"suite":1}`, text + "x"} {
		var got PublicKey
		if err := got.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}
