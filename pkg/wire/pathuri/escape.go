package pathuri

import "strings"

// Format returns the canonical `file:` URI of a native absolute path. Parse converts it back to
// the same path, unless the path has a NUL byte or is not clean.
func Format(native string) string {
	b := make([]byte, 0, len("file://")+len(native)+len(native)/4)
	b = append(b, "file://"...)
	if startsWithDrive(native) {
		// When the URI is parsed again, the colon would make the name a drive letter.
		i := strings.IndexByte(native, ':')
		b = append(b, native[:i]...)
		b = append(b, "%3A"...)
		native = native[i+1:]
	}
	return string(appendEscaped(b, native, false))
}

// appendEscaped appends s with percent escapes where a URI needs them. escaped means that s
// already contains escapes: percent signs are then not escaped.
func appendEscaped(b []byte, s string, escaped bool) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		if mustEscape(c) && (c != '%' || !escaped) {
			b = append(b, '%', hex[c>>4], hex[c&15])
			continue
		}
		b = append(b, c)
	}
	return b
}

// mustEscape reports whether a byte must be escaped in a path URI. A backslash must be escaped,
// because Parse reads it as a slash.
func mustEscape(c byte) bool {
	switch c {
	case '"', '#', '%', '<', '>', '?', '\\', '`', '{', '}':
		return true
	}
	return c <= ' ' || c >= 0x7F
}

// unescape resolves percent escapes. A percent sign that does not begin an escape
// stays.
func unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
			b = append(b, unhex(s[i+1])<<4|unhex(s[i+2]))
			i += 2
			continue
		}
		b = append(b, s[i])
	}
	return string(b)
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

// unhex returns the value of a hex digit.
func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
