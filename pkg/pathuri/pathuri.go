// Package pathuri turns the paths of the protocol into native ones and back
// (section 5): `file:` URIs, native absolute paths, and `~` for the server's
// home.
//
// It decides by spelling alone and touches no file. Native paths are bytes:
// a URI may carry bytes that are no UTF-8 as percent escapes, and comes back
// with them.
package pathuri

import (
	"fmt"
	"path"
	"strings"
)

// SyntaxError says that a text is no path of the protocol at all.
type SyntaxError struct{ text string }

func (e *SyntaxError) Error() string { return e.text }

// HostError says that a path is well-formed but names nothing on this host:
// it has another host's name, a drive letter or a NUL byte.
type HostError struct{ text string }

func (e *HostError) Error() string { return e.text }

func syntaxf(format string, args ...any) error { return &SyntaxError{fmt.Sprintf(format, args...)} }

func notHere(s string) string { return fmt.Sprintf("'%s' is invalid on 'linux'", s) }

// Parse returns the native absolute path that s names, with `.`, `..` and
// repeated slashes resolved by spelling. home stands for a leading `~`. The
// error is a *SyntaxError or a *HostError, whose text is for the client.
func Parse(s, home string) (string, error) {
	if strings.HasPrefix(s, "/") {
		return native(s, s)
	}
	if s == "~" || strings.HasPrefix(s, "~/") {
		if !path.IsAbs(home) {
			return "", syntaxf("path is not absolute: %s (the server knows no home directory)", s)
		}
		return native(home+s[1:], s)
	}
	uri := strings.Trim(s, blanks)
	scheme, rest, ok := cutScheme(uri)
	if !ok {
		return "", syntaxf("path is not absolute: %s", s)
	}
	if scheme != "file" {
		return "", syntaxf("unsupported path URI scheme `%s`", scheme)
	}
	return parseFile(s, rest)
}

func native(p, shown string) (string, error) {
	if strings.IndexByte(p, 0) >= 0 {
		return "", &HostError{notHere(shown)}
	}
	return path.Clean(p), nil
}

// blanks are what URI parsers drop at both ends: blank and the controls.
var blanks = func() string {
	b := make([]byte, 0x21)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}()

// cutScheme returns the scheme in lower case and what follows its colon.
func cutScheme(uri string) (scheme, rest string, ok bool) {
	scheme, rest, ok = strings.Cut(uri, ":")
	if !ok || scheme == "" {
		return "", "", false
	}
	for i, c := range []byte(scheme) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '+' && c != '-' && c != '.') {
			return "", "", false
		}
	}
	return strings.ToLower(scheme), rest, true
}

// parseFile parses what follows `file:`. Backslashes count as slashes there,
// and tabs and newlines as nothing, as in every URI parser.
func parseFile(s, rest string) (string, error) {
	rest = strings.NewReplacer("\\", "/", "\t", "", "\n", "", "\r", "").Replace(rest)
	switch i := strings.IndexAny(rest, "?#"); {
	case i < 0:
	case rest[i] == '?':
		return "", syntaxf("query parameters are not allowed in path URIs")
	default:
		return "", syntaxf("fragments are not allowed in path URIs")
	}
	host := ""
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		i := strings.IndexByte(after, '/')
		if i < 0 {
			i = len(after)
		}
		host, rest = after[:i], after[i:]
	}
	decoded := unescape(rest)
	if strings.IndexByte(decoded, 0) >= 0 {
		return "", &SyntaxError{notHere(s)}
	}
	if host != "" && !strings.EqualFold(host, "localhost") || hasDrive(rest) {
		return "", &HostError{notHere(s)}
	}
	return path.Clean("/" + decoded), nil
}

// hasDrive reports whether the first segment is a drive letter. One whose
// colon is escaped is an ordinary name.
func hasDrive(p string) bool {
	p = strings.TrimLeft(p, "/")
	if len(p) < 2 || p[1] != ':' || len(p) > 2 && p[2] != '/' {
		return false
	}
	c := p[0] | 0x20
	return c >= 'a' && c <= 'z'
}

// unescape resolves percent escapes; a percent sign that begins none stands
// for itself.
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

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// Format returns the canonical `file:` URI of a native absolute path.
func Format(native string) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len("file://")+len(native)+16)
	b = append(b, "file://"...)
	for i := 0; i < len(native); i++ {
		c := native[i]
		if mustEscape(c) || isFirstColon(native, i) {
			b = append(b, '%', hex[c>>4], hex[c&15])
			continue
		}
		b = append(b, c)
	}
	return string(b)
}

// isFirstColon finds the colon of a first segment that looks like a drive
// letter, which would not be read back as a name.
func isFirstColon(native string, i int) bool {
	return i == 2 && native[2] == ':' && hasDrive(native)
}

// mustEscape says which bytes have no place in a URI as they are. The
// backslash would be read back as a slash.
func mustEscape(c byte) bool {
	return c <= ' ' || c >= 0x7F || strings.IndexByte("\"#%<>?\\`{}", c) >= 0
}
