// Package b64 encodes and decodes base64 text: standard alphabet, padded.
package b64

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"

	simd "github.com/segmentio/asm/base64"
)

// Len returns the length of the base64 text of n bytes.
func Len(n int) int { return (n + 2) / 3 * 4 }

// Append appends the base64 text of data: standard alphabet, padded. It
// runs at memory speed where the processor has AVX2.
func Append(b, data []byte) []byte {
	n := Len(len(data))
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

// AppendString appends the base64 text of data as a JSON string.
func AppendString(b, data []byte) []byte {
	b = append(b, '"')
	b = Append(b, data)
	return append(b, '"')
}

// DecodeInPlace decodes base64 text in the standard alphabet. Padding is
// required, and no other characters are allowed. The result replaces the text
// in memory.
func DecodeInPlace(text []byte) ([]byte, error) {
	if len(text) == 0 {
		return text, nil
	}
	// The last four characters have the padding, and bits that must be zero: the standard
	// library checks them. The earlier characters have no padding.
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
	if err != nil || bytes.ContainsAny(quantum, "\r\n") { // the standard library would skip these
		return nil, tailError(quantum, len(text)-4)
	}
	copy(text[n:], tail[:m])
	return text[:n+m], nil
}

// Error is the error for an invalid base64 text. Its texts are those of Codex CLI's server.
type Error struct {
	Reason string // "Invalid symbol", "Invalid last symbol" or "Invalid padding"
	Symbol byte   // the invalid symbol; not set if the padding is invalid
	Offset int    // offset of the symbol, in bytes
}

func (e *Error) Error() string {
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

// lengthError returns the error for a text whose length is not a multiple of four.
func lengthError(text []byte) error {
	for i, c := range text {
		if !isBase64(c) && (c != '=' || i < len(text)-2) {
			return &Error{badSymbol, c, i}
		}
	}
	return &Error{Reason: badPadding}
}

// symbolError returns the error for a text with an invalid symbol before the last four. The
// text before that symbol was overwritten.
func symbolError(text []byte, err error) error {
	var corrupt base64.CorruptInputError
	if errors.As(err, &corrupt) && int(corrupt) < len(text) {
		return &Error{badSymbol, text[corrupt], int(corrupt)}
	}
	return &Error{Reason: badPadding}
}

// tailError returns the error for a text whose last four symbols, at offset at, are wrong.
func tailError(quantum []byte, at int) error {
	for i, c := range quantum {
		if !isBase64(c) && (c != '=' || i < 2) {
			return &Error{badSymbol, c, at + i}
		}
	}
	switch {
	case quantum[3] != '=':
		return &Error{badSymbol, '=', at + 2}
	case quantum[2] == '=':
		return &Error{badLastSymbol, quantum[1], at + 1}
	default:
		return &Error{badLastSymbol, quantum[2], at + 2}
	}
}

func isBase64(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '+' || c == '/'
}
