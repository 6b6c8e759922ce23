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

// PlainText removes characters that control a terminal from a text that others wrote. It does not
// remove tabs and line ends.
func PlainText(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
