// Package sessionid makes digests of session ids for logs, errors and status
// pages. An id itself must not appear there: it lets its holder resume the
// session, so it is a secret of client and server.
package sessionid

import (
	"crypto/sha256"
	"encoding/hex"
)

// digestBytes is how many bytes of the SHA-256 are shown. Ids are random, so that
// many bytes identify one, and do not reveal it.
const digestBytes = 8

// Digest returns the digest of a session's id: the same on client and server.
func Digest(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:digestBytes])
}
