package logtext

import "testing"

func TestClip(t *testing.T) {
	for _, tt := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 0, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc…"},
		{"aäb", 2, "a…"},
		{"aäb", 3, "aä…"},
		{"😀😀", 7, "😀…"},
		{"😀", 3, "…"},
		{"\x80\x80\x80\x80\x80\x80", 5, "\x80\x80…"},
	} {
		if got := Clip(tt.text, tt.limit); got != tt.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", tt.text, tt.limit, got, tt.want)
		}
	}
}
