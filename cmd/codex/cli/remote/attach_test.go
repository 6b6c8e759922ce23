package remote

import "testing"

// TestLeavingKeys types keys in pieces, and checks which of them the process gets.
func TestLeavingKeys(t *testing.T) {
	for _, tt := range []struct {
		typed []string
		got   string
		left  bool
	}{
		{[]string{"abc"}, "abc", false},
		{[]string{"\x10\x11"}, "", true},
		{[]string{"a\x10", "\x11b"}, "a", true},
		{[]string{"\x10", "x"}, "\x10x", false},
		{[]string{"\x10\x10", "\x11"}, "\x10", true},
		{[]string{"\x11\x10y\x11"}, "\x11\x10y\x11", false},
	} {
		var k leavingKeys
		got, left := "", false
		for _, piece := range tt.typed {
			var data []byte
			data, left = k.pass([]byte(piece))
			got += string(data)
			if left {
				break
			}
		}
		if got != tt.got || left != tt.left {
			t.Errorf("%q: %q %v, want %q %v", tt.typed, got, left, tt.got, tt.left)
		}
	}
}
