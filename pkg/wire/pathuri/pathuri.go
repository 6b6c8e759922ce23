// Package pathuri converts the paths of the protocol to native paths and back
// (docs/spec/wire.md §5.1): `file:` URIs, native absolute paths, and `~` for the server's home.
//
//	native, err := pathuri.Parse("file:///srv/a%20b/../c", home) // "/srv/c"
//	uri := pathuri.Format("/srv/a b")                            // "file:///srv/a%20b"
//
// The package works only on the text and accesses no file, so `..` removes the name before it,
// even if that is a symbolic link. Native paths are bytes: in a URI, bytes that are not UTF-8
// are percent-escaped.
//
// URIs are read as the WHATWG URL standard reads them, because Codex CLI
// does: blanks and controls around them and tabs and newlines within are
// dropped, backslashes count as slashes, an incomplete percent escape stands
// for itself. All functions are pure and safe for concurrent use.
package pathuri

import (
	"path"
	"strings"

	"codex.internal/pkg/wire/logtext"
)

// Parse returns the native path for s: absolute, clean (no `.`, `..`, doubled or trailing
// slashes) and without a NUL byte. s is a `file:` URI whose host is empty or localhost, a
// native absolute path, or `~` or `~/x`, where `~` stands for home. The error is a *SyntaxError
// or a *HostError. Its text is for the client.
func Parse(s, home string) (string, error) {
	if len(s) > MaxLength {
		return "", syntaxError("path is too long: " + logtext.Clip(s, maxShown))
	}
	if strings.HasPrefix(s, "/") {
		return parseNative(s)
	}
	if s == "~" || strings.HasPrefix(s, "~/") {
		if !path.IsAbs(home) {
			return "", syntaxError("path is not absolute: " + logtext.Clip(s, maxShown) + " (the server has no home directory)")
		}
		return parseNative(home + s[1:])
	}
	scheme, rest, ok := cutScheme(cleanURI(s))
	if !ok {
		return "", notAbsolute(s)
	}
	if scheme != "file" {
		return "", syntaxError("unsupported path URI scheme `" + logtext.Clip(scheme, maxShown) + "`")
	}
	return parseFile(rest)
}

func parseNative(p string) (string, error) {
	if strings.IndexByte(p, 0) >= 0 {
		return "", &HostError{"file name contained an unexpected NUL byte"}
	}
	return path.Clean(p), nil
}

// cleanURI removes the characters that URL parsers remove: blanks and controls at
// both ends, tabs and line ends anywhere.
func cleanURI(s string) string {
	s = strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
	if !strings.ContainsAny(s, "\t\n\r") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		if c := s[i]; c != '\t' && c != '\n' && c != '\r' {
			b = append(b, c)
		}
	}
	return string(b)
}

// cutScheme returns the scheme in lower case and the text after its colon.
func cutScheme(uri string) (scheme, rest string, ok bool) {
	scheme, rest, ok = strings.Cut(uri, ":")
	if !ok || scheme == "" {
		return "", "", false
	}
	for i := range len(scheme) {
		c := scheme[i]
		if !isLetter(c) && (i == 0 || (c < '0' || c > '9') && c != '+' && c != '-' && c != '.') {
			return "", "", false
		}
	}
	return strings.ToLower(scheme), rest, true
}

// parseFile parses the text after `file:`. Like Codex CLI, it checks for a query or
// a fragment first, then for a NUL, then for a host or a drive.
func parseFile(rest string) (string, error) {
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		if rest[i] == '?' {
			return "", syntaxError("query parameters are not allowed in path URIs")
		}
		return "", syntaxError("fragments are not allowed in path URIs")
	}
	rest = strings.ReplaceAll(rest, "\\", "/")
	host, rest, err := cutHost(rest)
	if err != nil {
		return "", err
	}
	encoded := resolveDots(rest)
	decoded := unescape(encoded)
	if strings.IndexByte(decoded, 0) >= 0 {
		return "", &SyntaxError{notHere(respell(host, encoded))}
	}
	if host != "" || startsWithDrive(encoded) {
		return "", &HostError{notHere(respell(host, encoded))}
	}
	// From here on, escaped slashes are treated as slashes, and dots between
	// them as path elements.
	return path.Clean(decoded), nil
}

// cutHost splits `//HOST/PATH`. The host is decoded and in lower case, and is empty for
// localhost. A drive letter in place of the host becomes the beginning of the path.
func cutHost(rest string) (host, p string, err error) {
	after, ok := strings.CutPrefix(rest, "//")
	if !ok {
		return "", rest, nil
	}
	i := strings.IndexByte(after, '/')
	if i < 0 {
		i = len(after)
	}
	host, p = after[:i], after[i:]
	if isDrive(host) {
		return "", after, nil
	}
	if !strings.HasPrefix(host, "[") {
		host = strings.ToLower(unescape(host))
		// The URL standard forbids these characters in a domain.
		if strings.ContainsFunc(host, func(r rune) bool {
			return r <= ' ' || r == 0x7F || strings.ContainsRune("#%/:<>?@[\\]^|", r)
		}) {
			return "", "", syntaxError("invalid URI: invalid host in " + logtext.Clip("file:"+rest, maxShown))
		}
	}
	if host == "localhost" {
		host = ""
	}
	return host, p, nil
}

// resolveDots makes a path absolute and resolves its `.` and `..` segments, including escaped
// ones. It does that before any other escape is decoded. An empty segment counts as a segment,
// except at the beginning.
func resolveDots(p string) string {
	segments := make([]string, 0, 16)
	for s := range strings.SplitSeq(strings.TrimLeft(p, "/"), "/") {
		switch dots(s) {
		case 0:
			if s == "" && len(segments) == 0 {
				continue
			}
			segments = append(segments, s)
		case 2:
			if n := len(segments); n > 1 || n == 1 && !isDrive(segments[0]) {
				segments = segments[:n-1]
			}
		}
	}
	return "/" + strings.Join(segments, "/")
}

// dots returns 1 for the segment `.`, 2 for `..` and 0 for others; a dot may be
// escaped.
func dots(s string) int {
	n := 0
	for s != "" {
		switch {
		case s[0] == '.':
			s = s[1:]
		case len(s) >= 3 && s[:2] == "%2" && s[2]|0x20 == 'e':
			s = s[3:]
		default:
			return 0
		}
		if n++; n > 2 {
			return 0
		}
	}
	return n
}

// startsWithDrive reports whether the first segment is a drive letter. If its colon is escaped,
// the segment is an ordinary name.
func startsWithDrive(p string) bool {
	first, _, _ := strings.Cut(strings.TrimLeft(p, "/"), "/")
	return isDrive(first)
}

func isDrive(segment string) bool {
	return len(segment) == 2 && isLetter(segment[0]) && segment[1] == ':'
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// respell returns the URI for an error text.
func respell(host, encoded string) string {
	return string(appendEscaped([]byte("file://"+host), encoded, true))
}
