package harness

import (
	"bytes"
	"strings"
	"testing"
)

// TestTail checks that Tail retains the end of a long log.
func TestTail(t *testing.T) {
	w := &Tail{}
	for range 3 {
		_, _ = w.Write(bytes.Repeat([]byte("a"), tailBytes/2))
	}
	_, _ = w.Write([]byte("end"))
	if got := w.String(); len(got) != tailBytes || !strings.HasSuffix(got, "aend") {
		t.Errorf("kept %d bytes, want %d that end with aend", len(got), tailBytes)
	}
}
