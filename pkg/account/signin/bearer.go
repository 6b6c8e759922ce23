package signin

import (
	"errors"
	"io"

	"codex.internal/pkg/wire/websocket"
)

var (
	// ErrBearerLine means that no line with a bearer was read.
	ErrBearerLine = errors.New("expected a newline-terminated registration bearer of at most 16 KiB")
	// ErrBearer means that a line is not a bearer.
	ErrBearer = errors.New("invalid registration bearer")
	// ErrBearerPlaintext means that others on the network could read the bearer.
	ErrBearerPlaintext = errors.New("environment registry configuration error: remote transport requires https for non-loopback endpoints")
)

// ReadBearer reads a registration bearer, of at most maxBearer bytes of printable
// ASCII without blanks, from the next line. It reads nothing after the line end.
// Errors: ErrBearerLine, ErrBearer.
func ReadBearer(from io.Reader) (Secret, error) {
	line := make([]byte, 0, 256)
	for {
		var b [1]byte
		if _, err := io.ReadFull(from, b[:]); err != nil {
			return "", ErrBearerLine
		}
		if b[0] == '\n' {
			break
		}
		if line = append(line, b[0]); len(line) > maxBearer {
			return "", ErrBearerLine
		}
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	for _, c := range line {
		if c <= ' ' || c > '~' {
			return "", ErrBearer
		}
	}
	if len(line) == 0 {
		return "", ErrBearer
	}
	return Secret(line), nil
}

// BearerRegistration returns the credential of a registration bearer for the registry with a URL,
// on any host. The error is ErrBearerPlaintext, or another one about the URL.
func BearerRegistration(token Secret, registryURL string) (Credential, error) {
	u, err := registrationURL(registryURL)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "https" && !websocket.IsLoopback(u.Hostname()):
		return nil, ErrBearerPlaintext
	}
	return registrationBearer{token: token}, nil
}
