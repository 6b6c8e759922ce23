// Package logtext makes text fit for errors, logs and status pages: Clip shortens
// it, Digest stands for a secret id.
package logtext

import (
	"crypto/sha256"
	"encoding/hex"
	"unicode/utf8"
)

// Clip returns s if it has at most limit bytes, else at most its first limit
// bytes and an ellipsis. It does not cut a UTF-8 character in two.
func Clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit
	for end > 0 && limit-end < utf8.UTFMax-1 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// digestBytes is how many bytes of the SHA-256 are shown. Ids are random, so that
// many bytes identify one, and do not reveal it.
const digestBytes = 8

// Digest returns the digest of a session's id: the same on client and server. The
// id itself must not be shown: it lets its holder resume the session.
func Digest(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:digestBytes])
}
