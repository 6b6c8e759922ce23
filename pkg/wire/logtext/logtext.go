// Package logtext shortens text for errors, logs and status pages.
package logtext

import "unicode/utf8"

// Clip returns s if it has at most limit bytes, else at most its first limit
// bytes and an ellipsis. It does not cut a UTF-8 character in two.
func Clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit
	for end > 0 && limit-end < utf8.UTFMax-1 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
