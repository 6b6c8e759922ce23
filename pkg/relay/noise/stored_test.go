package noise

import (
	"bytes"
	"strings"
	"testing"
)

func TestStoredIdentity(t *testing.T) {
	id, err := GenerateIdentity()
	if err != nil {
		t.Fatal(err)
	}
	text := id.Store()
	if len(text) > MaxStored || bytes.Count(text, []byte("\n")) != 1 {
		t.Fatalf("%d bytes, %q", len(text), text)
	}
	same, err := ParseIdentity(text)
	if err != nil {
		t.Fatal(err)
	}
	if same.PublicKey() != id.PublicKey() {
		t.Error("another key came back")
	}
	if !same.dh.Equal(id.dh) || !bytes.Equal(same.kem.Bytes(), id.kem.Bytes()) {
		t.Error("the secrets differ")
	}
	secret := strings.TrimSpace(string(text))
	for what, text := range map[string]string{
		"nothing": "", "no prefix": secret[len(storedPrefix):], "shorter": secret[:len(secret)-4], "longer": secret + "AAAA",
		"another version": strings.Replace(secret, "-1 ", "-2 ", 1), "two lines": secret + "\n\n", "line ends in it": secret[:60] + "\n" + secret[60:],
		"too large": secret + strings.Repeat(" ", MaxStored), "other characters": secret[:60] + "!" + secret[61:],
	} {
		if _, err := ParseIdentity([]byte(text)); err == nil {
			t.Errorf("%s: it is accepted", what)
		} else if len(text) > 60 && strings.Contains(err.Error(), text[40:60]) {
			t.Errorf("%s: the error has the secret", what)
		}
	}
}

// FuzzStoredIdentity reads any bytes as an identity. An accepted one is stored as the same
// text.
func FuzzStoredIdentity(f *testing.F) {
	f.Add([]byte(storedPrefix + strings.Repeat("A", 128) + "\n"))
	f.Add([]byte(storedPrefix + strings.Repeat("A", 128)))
	f.Add([]byte(storedPrefix))
	f.Fuzz(func(t *testing.T, text []byte) {
		id, err := ParseIdentity(text)
		if err == nil && string(id.Store()) != strings.TrimSuffix(string(text), "\n")+"\n" {
			t.Fatalf("%q is stored as %q", text, id.Store())
		}
	})
}
