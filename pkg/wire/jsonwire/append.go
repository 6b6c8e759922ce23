package jsonwire

import (
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// plain reports whether an ASCII byte needs no escape in a JSON string.
func plain(c byte) bool { return c >= 0x20 && c != '"' && c != '\\' }

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString[S ~string | ~[]byte](b []byte, s S) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if plain(c) {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			b = appendEscape(b, c)
			i++
			start = i
			continue
		}
		n := 1
		r, size := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
		if r != utf8.RuneError || size > 1 {
			n = size
		} else {
			b = append(b, s[start:i]...)
			b = append(b, "\uFFFD"...)
			start = i + 1
		}
		i += n
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	default:
		return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
	}
}

// AppendInt appends an integer.
func AppendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

// AppendUint appends an unsigned integer.
func AppendUint(b []byte, n uint64) []byte { return strconv.AppendUint(b, n, 10) }

// AppendBool appends a boolean.
func AppendBool(b []byte, v bool) []byte { return strconv.AppendBool(b, v) }

// AppendRaw appends a JSON text unchanged, except that it replaces each line end by a space.
// Line ends cannot occur within JSON strings, so the meaning stays the same. If the text is not
// one JSON value, AppendRaw appends nothing, and the error is a *SyntaxError.
func AppendRaw(b, text []byte) ([]byte, error) {
	r := NewReader(text)
	if err := r.Skip(); err != nil {
		return b, err
	}
	if err := r.End(); err != nil {
		return b, err
	}
	at := len(b)
	b = append(b, text...)
	for i := at; i < len(b); i++ {
		if b[i] == '\n' || b[i] == '\r' {
			b[i] = ' '
		}
	}
	return b, nil
}
