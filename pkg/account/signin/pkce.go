package signin

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

const (
	// verifierBytes is how many random bytes the verifier of a challenge has (RFC 7636). Codex CLI
	// uses 64; 32 would be enough.
	verifierBytes = 64
	// stateBytes is how many random bytes the state of an attempt has.
	stateBytes = 32
)

// randomText returns base64url of random bytes, without padding.
func randomText(n int) Secret {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return Secret(base64.RawURLEncoding.EncodeToString(b))
}

// challenge returns the challenge for a verifier, by the method S256.
func challenge(verifier Secret) string {
	digest := sha256.Sum256([]byte(verifier.Reveal()))
	return base64.RawURLEncoding.EncodeToString(digest[:])
}
