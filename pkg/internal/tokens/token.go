// Package tokens stores bearer tokens in a file, which contains only their digests. The service
// decides what a token permits: its token type embeds Token and adds fields.
package tokens

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

var (
	// ErrNoToken means that there is no token with that id.
	ErrNoToken = errors.New("the token does not exist")
	// ErrBadToken means that a token is not in the file, was removed from it, or has expired.
	ErrBadToken = errors.New("the token is unknown, revoked or expired")
	// ErrExpired is an ErrBadToken for a token whose secret is right.
	ErrExpired = fmt.Errorf("%w: it has expired", ErrBadToken)
)

// InvalidError means that a person has given an invalid value. What names the option in words.
type InvalidError struct {
	What   string
	Reason string
}

func (e *InvalidError) Error() string { return e.What + " " + e.Reason }

// Invalid returns an InvalidError.
func Invalid(what, format string, args ...any) error {
	return &InvalidError{what, fmt.Sprintf(format, args...)}
}

// Token is the stored part of every token, without its secret.
type Token struct {
	ID      string    `json:"id"`             // 12 hexadecimal digits
	Name    string    `json:"name,omitempty"` // for people
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	SHA256  string    `json:"sha256"`           // of the whole token, in hexadecimal digits
}

// Common returns the token itself. It makes a type that embeds Token a Kept.
func (t *Token) Common() *Token { return t }

// Expired reports whether the token is no longer valid at a time.
func (t *Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// matches reports whether a secret belongs to the token. Comparing digests takes the same time
// wherever they differ.
func (t *Token) matches(secret string) bool {
	return subtle.ConstantTimeCompare([]byte(Digest(secret)), []byte(t.SHA256)) == 1
}

// check returns an InvalidError if the token is invalid.
func (t *Token) check() error {
	if len(t.Name) > MaxName || !Printable(t.Name) {
		return Invalid("name", "%.*q: at most %d bytes that can be printed", MaxName, t.Name, MaxName)
	}
	return nil
}

// Digest returns the SHA-256 of a text in hexadecimal digits.
func Digest(s string) string {
	digest := sha256.Sum256([]byte(s))
	return hex.EncodeToString(digest[:])
}

// Printable reports whether a text is UTF-8 that can be printed.
func Printable(s string) bool {
	for _, c := range s {
		if !unicode.IsPrint(c) {
			return false
		}
	}
	return utf8.ValidString(s)
}

// Prefix is the beginning of the text of the tokens of one kind of service. The id, an underscore
// and the secret part follow. So the owner of a token can see its purpose and its id.
type Prefix string

// These are the sizes of the random parts of a token.
const (
	idBytes     = 6
	secretBytes = 32 // it cannot be guessed, so a plain digest protects it
)

// New makes the text of a new token.
func (p Prefix) New() (id, secret string) {
	random := make([]byte, idBytes+secretBytes)
	_, _ = rand.Read(random) // never fails
	id = hex.EncodeToString(random[:idBytes])
	return id, string(p) + id + "_" + base64.RawURLEncoding.EncodeToString(random[idBytes:])
}

// ID returns the id in the text of a token, or "" if the text is not a token.
func (p Prefix) ID(secret string) string {
	rest, ok := strings.CutPrefix(secret, string(p))
	id, _, found := strings.Cut(rest, "_")
	if !ok || !found || len(secret) > MaxText || !IsID(id) {
		return ""
	}
	return id
}

// IsID reports whether a text has the form of a token's id.
func IsID(id string) bool {
	b, err := hex.DecodeString(id)
	return err == nil && len(b) == idBytes && strings.ToLower(id) == id
}
