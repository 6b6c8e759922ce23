// Package digest computes digests that stand for secret ids in logs and on status pages. It is a
// package of its own because codex-fs, which is started once per request, must not link Go's
// cryptography (cmd/codex-fs: TestLinkedPackages).
package digest

import (
	"crypto/sha256"
	"encoding/hex"
)

// size is how many bytes of the SHA-256 are shown. Ids are random: that many bytes identify an
// id, and do not reveal it.
const size = 8

// Of returns the digest of a session's or stream's id. It is the same on client and server. The
// id itself must not be shown, because its holder can resume the session.
func Of(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:size])
}
