package b64

import (
	"bytes"
	"encoding/base64"
	"math/rand/v2"
	"testing"
)

// TestBase64AgreesWithTheStandardLibrary compares both directions on random
// data of every small length and some large ones, intact and damaged.
func TestBase64AgreesWithTheStandardLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	strict := base64.StdEncoding.Strict()
	for n := 0; n < 700; n++ {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		want := strict.EncodeToString(data)
		if got := Append([]byte("x"), data); string(got) != "x"+want {
			t.Fatalf("Append of %d bytes differs", n)
		}
		got, err := DecodeInPlace([]byte(want))
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("DecodeInPlace of %d bytes: %v", n, err)
		}
		for range 20 {
			checkBase64(t, damage(rng, want))
		}
	}
}

func damage(rng *rand.Rand, text string) []byte {
	b := []byte(text)
	if len(b) == 0 {
		return []byte("=")
	}
	at := rng.IntN(len(b))
	switch rng.IntN(4) {
	case 0:
		return append(b[:at], b[at+1:]...)
	case 1:
		b[at] = "=\n\r -_\x00\xff*"[rng.IntN(9)]
	case 2:
		b[at] = byte(rng.Uint32())
	default:
		return append(b, "A=\n"[rng.IntN(3)])
	}
	return b
}

func checkBase64(t *testing.T, text []byte) {
	t.Helper()
	// The standard library skips newlines; the protocol does not.
	want, wantErr := base64.StdEncoding.Strict().DecodeString(string(text))
	if wantErr == nil && bytes.ContainsAny(text, "\r\n") {
		wantErr = base64.CorruptInputError(bytes.IndexAny(text, "\r\n"))
	}
	got, err := DecodeInPlace(bytes.Clone(text))
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("DecodeInPlace(%q): %v, the standard library: %v", text, err, wantErr)
	}
	if err == nil && !bytes.Equal(got, want) {
		t.Fatalf("DecodeInPlace(%q) = %q, want %q", text, got, want)
	}
}

func TestBase64ErrorsNameTheSymbol(t *testing.T) {
	for text, want := range map[string]string{
		"***":      "Invalid symbol 42, offset 0.",
		"YQ":       "Invalid padding",
		"YQ=":      "Invalid padding",
		"Y*==":     "Invalid symbol 42, offset 1.",
		"YWJjZA\n": "Invalid symbol 10, offset 6.",
		"YR==":     "Invalid last symbol 82, offset 1.",
		"YWJjY===": "Invalid symbol 61, offset 5.",
	} {
		if _, err := DecodeInPlace([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzBase64(f *testing.F) {
	for _, s := range []string{"", "YQ==", "YWI=", "YWJj", "====", "YWJj\n", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) { checkBase64(t, text) })
}
