// Package terminal makes text from elsewhere safe to show on a terminal, and
// brings a terminal into a known state.
//
// A terminal executes the sequences that are written to it. An escape sequence in a file name or in
// a server's error can change colours, hide the following text, set the title of the window or
// write to the clipboard. Characters that change the direction of writing make one text look like
// another. Text, Literal and Writer replace every such character by a visible escape, as in Go's
// quoted strings: \x1b, \u202e. Writer is for whole streams, so that all messages of a program
// reach the terminal through one place. Reset is for messages that a person must be able to read,
// whatever was written to the terminal before.
package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxMarks is how many combining marks may follow one character. Languages need three or four.
// Longer sequences are drawn over the lines above and below.
const maxMarks = 4

// Text returns s as one line. It replaces every character that a terminal does not print in its
// place by a visible escape: control characters including line breaks and tabs, direction marks,
// characters without a width, line and paragraph separators, blanks other than the space, and bytes
// that are not UTF-8. If s contains none of these, Text returns s.
func Text(s string) string { return string(visible(nil, s, false)) }

// Literal is Text for text that a person must read exactly, such as a command to be approved. It
// also replaces letters that are written from right to left, because a terminal may show them, and
// the characters between them, in another order.
func Literal(s string) string {
	if strings.IndexFunc(s, rightToLeft) < 0 {
		return Text(s)
	}
	var b []byte
	for rest := s; rest != ""; {
		at := strings.IndexFunc(rest, rightToLeft)
		if at < 0 {
			at = len(rest)
		}
		b = visible(b, rest[:at], false)
		if rest = rest[at:]; rest != "" {
			r, size := utf8.DecodeRuneInString(rest)
			b, rest = appendEscape(b, r), rest[size:]
		}
	}
	return string(b)
}

// visible appends s with all characters made visible.
func visible(b []byte, s string, lines bool) []byte {
	marks := maxMarks // no character to carry a mark yet
	for at := 0; at < len(s); {
		c := s[at]
		if c < utf8.RuneSelf {
			at++
			marks = 0
			switch {
			case c >= ' ' && c < 0x7f, lines && (c == '\n' || c == '\t'):
				b = append(b, c)
			default:
				b = appendByte(b, c)
			}
			continue
		}
		r, size := utf8.DecodeRuneInString(s[at:])
		switch {
		case r == utf8.RuneError && size == 1:
			b, marks = appendByte(b, c), 0
		case unicode.Is(unicode.M, r):
			if marks++; marks > maxMarks || !shown(r) {
				b = appendEscape(b, r)
			} else {
				b = append(b, s[at:at+size]...)
			}
		case shown(r):
			b, marks = append(b, s[at:at+size]...), 0
		default:
			b, marks = appendEscape(b, r), 0
		}
		at += size
	}
	return b
}

// brailleBlank and nullNotehead are symbols that look empty.
const (
	brailleBlank = 0x2800
	nullNotehead = 0x1d159
)

// shown reports whether a terminal prints a character in its place and with a width.
func shown(r rune) bool {
	switch {
	case !unicode.IsPrint(r), r == brailleBlank, r == nullNotehead:
		return false
	default:
		return !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
	}
}

// rightToLeft reports whether a character is in one of the blocks for letters that
// are written from right to left: those whose default class is R or AL in Unicode's
// DerivedBidiClass.txt.
func rightToLeft(r rune) bool {
	return r >= 0x590 && r <= 0x8ff || r >= 0xfb1d && r <= 0xfdff || r >= 0xfe70 && r <= 0xfeff ||
		r >= 0x10800 && r <= 0x10fff || r >= 0x1e800 && r <= 0x1efff
}

// appendByte appends the escape of a control character or of a byte that is not
// UTF-8.
func appendByte(b []byte, c byte) []byte {
	switch c {
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	case 0x7f:
		return append(b, `\u007f`...) // an escape that JSON supports as well
	default:
		return fmt.Appendf(b, `\x%02x`, c)
	}
}

// appendEscape appends the escape of a character. It uses four digits, which are a valid escape in
// JSON too, so that a line of JSON stays valid.
func appendEscape(b []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		return fmt.Appendf(b, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(b, `\u%04x`, r)
}
