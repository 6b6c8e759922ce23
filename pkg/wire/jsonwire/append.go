package jsonwire

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	simd "github.com/segmentio/asm/base64"
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

// AppendRaw appends a JSON text as it is, but with a space in place of each line
// end. Strings contain none, so its meaning is the same. The error is a
// *SyntaxError if the text is not one JSON value; then nothing is appended.
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

// Base64Len is the length of the base64 text of n bytes.
func Base64Len(n int) int { return (n + 2) / 3 * 4 }

// AppendBase64 appends the base64 text of data: standard alphabet, padded. It
// runs at memory speed where the processor has AVX2.
func AppendBase64(b, data []byte) []byte {
	n := Base64Len(len(data))
	at := len(b)
	if cap(b)-at < n {
		grown := make([]byte, at, max(2*cap(b), at+n+n/8))
		copy(grown, b)
		b = grown
	}
	b = b[:at+n]
	simd.StdEncoding.Encode(b[at:], data)
	return b
}

// AppendBase64String appends the base64 text of data as a JSON string.
func AppendBase64String(b, data []byte) []byte {
	b = append(b, '"')
	b = AppendBase64(b, data)
	return append(b, '"')
}

// DecodeBase64InPlace decodes base64 text, standard alphabet, padding
// required, nothing else allowed. The result takes the text's place in memory.
func DecodeBase64InPlace(text []byte) ([]byte, error) {
	if len(text) == 0 {
		return text, nil
	}
	// The last four characters have the padding and the bits that must be zero;
	// the standard library checks them. The characters before have no padding.
	if len(text)%4 != 0 {
		return nil, lengthError(text)
	}
	head := text[:len(text)-4]
	n, err := simd.RawStdEncoding.Decode(head, head)
	if err != nil || n != len(head)/4*3 {
		return nil, symbolError(text, err)
	}
	var tail [3]byte
	quantum := text[len(text)-4:]
	m, err := base64.StdEncoding.Strict().Decode(tail[:], quantum)
	if err != nil || bytes.ContainsAny(quantum, "\r\n") { // which it would skip
		return nil, tailError(quantum, len(text)-4)
	}
	copy(text[n:], tail[:m])
	return text[:n+m], nil
}

// Base64Error is the error of an invalid base64 text, with the texts of Codex
// CLI's server.
type Base64Error struct {
	Reason string // "Invalid symbol", "Invalid last symbol" or "Invalid padding"
	Symbol byte   // the symbol, unless it is the padding that is wrong
	Offset int    // of the symbol, in bytes
}

func (e *Base64Error) Error() string {
	if e.Reason == badPadding {
		return e.Reason
	}
	return fmt.Sprintf("%s %d, offset %d.", e.Reason, e.Symbol, e.Offset)
}

const (
	badSymbol     = "Invalid symbol"
	badLastSymbol = "Invalid last symbol"
	badPadding    = "Invalid padding"
)

// lengthError is for a text whose length is no multiple of four.
func lengthError(text []byte) error {
	for i, c := range text {
		if !isBase64(c) && (c != '=' || i < len(text)-2) {
			return &Base64Error{badSymbol, c, i}
		}
	}
	return &Base64Error{Reason: badPadding}
}

// symbolError is the error for a text with an invalid symbol before the last four.
// The text before that symbol has been overwritten.
func symbolError(text []byte, err error) error {
	var corrupt base64.CorruptInputError
	if errors.As(err, &corrupt) && int(corrupt) < len(text) {
		return &Base64Error{badSymbol, text[corrupt], int(corrupt)}
	}
	return &Base64Error{Reason: badPadding}
}

// tailError is for a text whose last four symbols, at offset at, are wrong.
func tailError(quantum []byte, at int) error {
	for i, c := range quantum {
		if !isBase64(c) && (c != '=' || i < 2) {
			return &Base64Error{badSymbol, c, at + i}
		}
	}
	switch {
	case quantum[3] != '=':
		return &Base64Error{badSymbol, '=', at + 2}
	case quantum[2] == '=':
		return &Base64Error{badLastSymbol, quantum[1], at + 1}
	default:
		return &Base64Error{badLastSymbol, quantum[2], at + 2}
	}
}

func isBase64(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '+' || c == '/'
}
