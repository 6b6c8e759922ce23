package jsonwire

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// scanString validates the string that begins at the current position and skips it. It returns
// the text between the quotes, and whether that text has escapes. It uses vector instructions,
// first to find the closing quote, and then to find escapes and invalid characters before it.
func (r *Reader) scanString() (raw []byte, escaped bool, err error) {
	r.pos++
	start := r.pos
	for {
		n := bytes.IndexByte(r.data[r.pos:], '"')
		if n < 0 {
			r.pos = len(r.data)
			return nil, false, r.syntax("EOF while parsing a string")
		}
		part := r.data[r.pos : r.pos+n]
		if bytes.IndexByte(part, '\\') < 0 {
			r.pos += n
			break
		}
		escaped = true
		end, err := r.skipEscapes(r.pos + n)
		if err != nil {
			return nil, false, err
		}
		if end {
			break
		}
	}
	raw = r.data[start:r.pos]
	if !r.checked && !plainText(raw) {
		if i := control(raw); i >= 0 {
			r.pos = start + i
			return nil, false, r.syntax("control character found while parsing a string")
		}
		if !utf8.Valid(raw) {
			return nil, false, &SyntaxError{Offset: start, Reason: "invalid unicode code point"}
		}
	}
	r.pos++
	return raw, escaped, nil
}

// skipEscapes skips the bytes up to the quote at position quote and validates their
// escape sequences. It reports whether the string ends at that quote; otherwise
// the quote was escaped and has been skipped.
func (r *Reader) skipEscapes(quote int) (bool, error) {
	for r.pos < quote {
		i := bytes.IndexByte(r.data[r.pos:quote], '\\')
		if i < 0 {
			r.pos = quote
			break
		}
		r.pos += i
		if err := r.skipEscape(); err != nil {
			return false, err
		}
	}
	return r.pos == quote, nil
}

// skipEscape validates and skips one escape sequence, or a pair of them for a
// surrogate pair.
func (r *Reader) skipEscape() error {
	rest := r.data[r.pos:]
	if len(rest) < 2 {
		return r.syntax("EOF while parsing a string")
	}
	switch rest[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		r.pos += 2
		return nil
	case 'u':
	default:
		return r.syntax("invalid escape")
	}
	high, ok := hex4(rest[2:])
	if !ok {
		return r.syntax("invalid escape")
	}
	if !utf16.IsSurrogate(high) {
		r.pos += 6
		return nil
	}
	if len(rest) >= 12 && rest[6] == '\\' && rest[7] == 'u' {
		if low, ok := hex4(rest[8:]); ok && utf16.DecodeRune(high, low) != utf8.RuneError {
			r.pos += 12
			return nil
		}
	}
	return r.syntax("lone surrogate in hex escape")
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var v rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		v = v<<4 | rune(c)
	}
	return v, true
}

// plainText reports whether b is all ASCII without control characters. It
// checks 32 bytes at a time.
func plainText(b []byte) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for len(b) >= 32 {
		w, x, y, z := le64(b), le64(b[8:]), le64(b[16:]), le64(b[24:])
		// The high bit of a byte itself marks a byte outside of ASCII. The high bit after the
		// subtraction marks a byte below 0x20.
		if (w|x|y|z|(w-ones*0x20)|(x-ones*0x20)|(y-ones*0x20)|(z-ones*0x20))&high != 0 {
			return false
		}
		b = b[32:]
	}
	for _, c := range b {
		if c < 0x20 || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// control returns the position of the first control character, or -1. Eight
// bytes are examined together.
func control(b []byte) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		w := le64(b[i:])
		// The usual bit trick that finds a byte less than 0x20 among eight bytes.
		if (w-ones*0x20)&^w&high != 0 {
			break
		}
	}
	for ; i < len(b); i++ {
		if b[i] < 0x20 {
			return i
		}
	}
	return -1
}

func le64(b []byte) uint64 {
	_ = b[7]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// unescape resolves the escapes of a string that scanString has checked.
func unescape(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(out, raw...)
		}
		out = append(out, raw[:i]...)
		raw = raw[i:]
		switch raw[1] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			v, _ := hex4(raw[2:])
			if utf16.IsSurrogate(v) {
				low, _ := hex4(raw[8:])
				v = utf16.DecodeRune(v, low)
				raw = raw[6:]
			}
			out = utf8.AppendRune(out, v)
			raw = raw[6:]
			continue
		default:
			out = append(out, raw[1])
		}
		raw = raw[2:]
	}
}
