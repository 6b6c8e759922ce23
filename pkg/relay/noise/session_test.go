package noise

import (
	"bytes"
	"errors"
	"testing"
)

func TestRecordLimits(t *testing.T) {
	harness, executor := sessions(t)
	for _, n := range []int{0, 1, MaxChunk, maxNoise - tagSize} {
		record, err := harness.Seal([]byte("before"), make([]byte, n))
		if err != nil || !bytes.HasPrefix(record, []byte("before")) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		plaintext, err := executor.Open([]byte("before"), record[len("before"):])
		if err != nil || len(plaintext) != len("before")+n {
			t.Errorf("%d bytes came back as %d, %v", n, len(plaintext), err)
		}
	}
	_, err := harness.Seal(nil, make([]byte, maxNoise-tagSize+1))
	wantError(t, "plaintext", err, ErrInvalidMessage, "invalid Noise channel message: transport plaintext is too large")
}

func TestOpenRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage func(first, second []byte) []byte
		is     error
		text   string
	}{
		{"short", func([]byte, []byte) []byte { return make([]byte, tagSize-1) }, ErrInvalidMessage, "invalid Noise channel message: transport ciphertext is too short"},
		{"long", func([]byte, []byte) []byte { return make([]byte, maxNoise+1) }, ErrInvalidMessage, "invalid Noise channel message: transport ciphertext is too large"},
		{"altered", func(first, _ []byte) []byte { return flip(0)(bytes.Clone(first)) }, ErrTransport, "Noise channel transport failed: Cipher error: Decrypt error"},
		{"out of order", func(_, second []byte) []byte { return second }, ErrTransport, "Noise channel transport failed: Cipher error: Decrypt error"},
		{"longest", func([]byte, []byte) []byte { return make([]byte, maxNoise) }, ErrTransport, "Noise channel transport failed: Cipher error: Decrypt error"},
	} {
		harness, executor := sessions(t)
		first, err := harness.Seal(nil, []byte("first"))
		if err != nil {
			t.Fatal(err)
		}
		second, err := harness.Seal(nil, []byte("second"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = executor.Open(nil, tt.damage(first, second))
		wantError(t, tt.name, err, tt.is, tt.text)
		if _, again := executor.Open(nil, first); !errors.Is(again, err) {
			t.Errorf("%s: after it Open returned %v", tt.name, again)
		}
	}
}

// TestRecordsAreNotReflected gives an end the records that it sealed itself.
func TestRecordsAreNotReflected(t *testing.T) {
	harness, _ := sessions(t)
	record, err := harness.Seal(nil, []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := harness.Open(nil, record); !errors.Is(err, ErrTransport) {
		t.Errorf("it was opened: %v", err)
	}
}

// BenchmarkRecord seals and opens full records into reused buffers.
func BenchmarkRecord(b *testing.B) {
	harness, executor := sessions(b)
	chunk := make([]byte, MaxChunk)
	record, plaintext := make([]byte, 0, MaxChunk+RecordOverhead), make([]byte, 0, MaxChunk)
	b.SetBytes(MaxChunk)
	b.ReportAllocs()
	for b.Loop() {
		sealed, err := harness.Seal(record, chunk)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := executor.Open(plaintext, sealed); err != nil {
			b.Fatal(err)
		}
	}
}
