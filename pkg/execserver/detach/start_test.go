package detach

import (
	"strings"
	"testing"
)

// TestEncodeSettings: settings that do not fit into an empty pipe are refused, because a
// write would wait for a reader that does not exist.
func TestEncodeSettings(t *testing.T) {
	const quotes = 2
	for size, fits := range map[int]bool{0: true, maxSettings - quotes: true, maxSettings - quotes + 1: false} {
		text, err := encodeSettings(strings.Repeat("x", size))
		if fits != (err == nil) || fits && len(text) != size+quotes || !fits && !strings.Contains(err.Error(), "32769 bytes") {
			t.Errorf("%d bytes: %d, %v", size, len(text), err)
		}
	}
	if _, err := encodeSettings(func() {}); err == nil {
		t.Error("a function was encoded")
	}
}
