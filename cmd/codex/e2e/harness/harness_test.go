package harness

import (
	"bytes"
	"strings"
	"testing"
)

// TestLastWritten checks that the end of a long log is kept.
func TestLastWritten(t *testing.T) {
	w := &lastWritten{}
	for range 3 {
		_, _ = w.Write(bytes.Repeat([]byte("a"), maxShown/2))
	}
	_, _ = w.Write([]byte("end"))
	if got := w.text(); len(got) != maxShown || !strings.HasSuffix(got, "aend") {
		t.Errorf("kept %d bytes, want %d that end with aend", len(got), maxShown)
	}
}
