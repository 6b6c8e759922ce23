package httpclient

import (
	"fmt"
	"net/http"
	"strings"
	"unicode"
)

// StatusText returns an HTTP status as Codex CLI writes it, such as
// 404 Not Found.
func StatusText(status int) string {
	text := http.StatusText(status)
	if text == "" {
		text = "<unknown status code>"
	}
	return fmt.Sprintf("%d %s", status, text)
}

// PlainText returns a text of foreign origin without characters that control a
// terminal; tabs and line ends stay.
func PlainText(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
