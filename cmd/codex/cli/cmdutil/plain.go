package cmdutil

import (
	"errors"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"codex.internal/pkg/execclient"
)

var (
	// osError matches the form in which servers report an error of the operating system: its text, its number and,
	// if known, the object.
	osError = regexp.MustCompile(`^([^:()]+) \(os error [0-9]+\)(?:: (.*))?$`)
	// osNumber matches the number alone, within a longer text.
	osNumber = regexp.MustCompile(` \(os error [0-9]+\)`)
)

// Plain returns the text of an error for the terminal. An error of a server is shown as system
// tools show it, with the object first and without the numbers of the protocol and of the operating
// system:
//
//	/etc/x: exec-server rejected request (-32004): No such file or directory (os error 2): /etc/x
//	/etc/x: no such file or directory
//
// The text of the error itself, which programs match, stays the same as in Codex CLI.
func Plain(err error) string {
	text := err.Error()
	var answer *execclient.ServerError
	if !errors.As(err, &answer) {
		return text
	}
	before, after, found := strings.Cut(text, answer.Error())
	if !found {
		return text
	}
	return before + plainAnswer(before, answer.Message) + after
}

// plainAnswer returns the message of a server for display after a text, which may already name the object.
func plainAnswer(before, message string) string {
	m := osError.FindStringSubmatch(message)
	if m == nil {
		return osNumber.ReplaceAllString(message, "")
	}
	reason, object := lower(m[1]), m[2]
	if object == "" || strings.HasSuffix(before, object+": ") {
		return reason
	}
	return object + ": " + reason
}

// lower returns a text with a lower-case first letter, unless its first word is an
// abbreviation such as RPC.
func lower(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if second, _ := utf8.DecodeRuneInString(text[size:]); unicode.IsUpper(second) {
		return text
	}
	return string(unicode.ToLower(first)) + text[size:]
}
