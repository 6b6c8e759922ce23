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
		k := leavingKeys{keys: []byte{0x10, 0x11}}
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

// TestOtherLeavingKeys uses a sequence that repeats its beginning.
func TestOtherLeavingKeys(t *testing.T) {
	k := leavingKeys{keys: []byte("aab")}
	if got, left := k.pass([]byte("aaaxaa")); string(got) != "aaax" || left {
		t.Errorf("got %q, left %v; want aaax, false", got, left)
	}
	if got, left := k.pass([]byte("ab")); string(got) != "" || !left {
		t.Errorf("got %q, left %v; want true", got, left)
	}
}

func TestDetachKeys(t *testing.T) {
	for text, want := range map[string]string{
		"ctrl-p,ctrl-q": "\x10\x11", "ctrl-]": "\x1d", "ctrl-@": "\x00", "CTRL-A,d": "\x01d", "ctrl-": "error", "": "error", "ab": "error", "a,": "error", "ctrl-1": "error",
	} {
		keys, err := parseKeys(text)
		if got := string(keys); (err != nil) != (want == "error") || err == nil && got != want {
			t.Errorf("--detach-keys %q: got %q, %v; want %q", text, got, err, want)
		}
	}
}
