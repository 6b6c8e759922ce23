// Package sessionid names sessions where their ids must not stand: in logs,
// errors and on status pages. An id lets its holder resume the session, and so
// is a secret between client and server.
package sessionid

import (
	"crypto/sha256"
	"encoding/hex"
)

// digestBytes is how much of the digest is shown. Ids are random, so that much
// identifies one among all that a server ever has, and leads back to none.
const digestBytes = 8

// Digest returns the name of a session: the same on client and server.
func Digest(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:digestBytes])
}
