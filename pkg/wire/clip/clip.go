// Package clip shortens text for errors and logs.
package clip

import "unicode/utf8"

// Text returns s if it has at most limit bytes, else at most its first limit
// bytes and an ellipsis. It does not cut a UTF-8 character in two.
func Text(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit
	for end > 0 && limit-end < utf8.UTFMax-1 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
