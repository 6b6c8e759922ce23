package wsauth

import "strings"

// blank has the characters that may surround a token.
const blank = " \t"

// bearerToken returns the token in the Authorization headers of a request. It parses them like
// Codex CLI: the scheme in any case, then a space, then the token, which is not empty and may
// itself contain blanks. Several headers are an error: Codex CLI reads the first of them, but a
// proxy in front of the server may have checked another one.
func bearerToken(headers []string) (string, error) {
	switch {
	case len(headers) == 0:
		return "", ErrMissing
	case len(headers) > 1:
		return "", ErrHeader
	}
	scheme, token, found := strings.Cut(strings.Trim(headers[0], blank), " ")
	token = strings.Trim(token, blank)
	if !found || !strings.EqualFold(scheme, "Bearer") || !presentable(token) {
		return "", ErrHeader
	}
	return token, nil
}

// presentable reports whether a token can be sent in a header: it is not empty, consists of
// printable ASCII, and has no blanks at its ends.
func presentable(token string) bool {
	if token == "" || strings.Trim(token, blank) != token {
		return false
	}
	for i := range len(token) {
		if c := token[i]; (c < ' ' || c > '~') && c != '\t' {
			return false
		}
	}
	return true
}
