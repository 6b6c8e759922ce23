package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"testing"
)

// TestSum compares sum256 with crypto/sha256, for lengths around the block size and for
// contents that are written in parts, and checks the example of FIPS 180-4.
func TestSum(t *testing.T) {
	t.Parallel()
	rng := rand.NewChaCha8([32]byte{1})
	content := make([]byte, 300)
	_, _ = rng.Read(content)
	for size := range len(content) {
		s := newSum()
		for from := 0; from < size; {
			n := min(1+int(rng.Uint64()%70), size-from)
			s.write(content[from : from+n])
			from += n
		}
		if got, want := s.sum(), sha256.Sum256(content[:size]); got != want {
			t.Fatalf("of %d bytes: %x, want %x", size, got, want)
		}
	}
	s := newSum()
	s.write([]byte("abc"))
	got := s.sum()
	if hex.EncodeToString(got[:]) != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("of abc: %x", got)
	}
}
