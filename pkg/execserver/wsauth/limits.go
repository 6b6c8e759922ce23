package wsauth

import "time"

const (
	// DefaultClockSkew is the default for the largest difference between the clocks of signer
	// and server. It is Codex CLI's value, and enough for machines with synchronised clocks.
	DefaultClockSkew = 30 * time.Second

	// minSecretBytes is the length of the shortest shared secret. It is the length of an HS256
	// signature: a shorter key would weaken the signature (RFC 7518, 3.2).
	minSecretBytes = 32

	// minTokenBits is the smallest strength of a capability token: that of 32 hexadecimal
	// digits or 22 characters of base64. Weaker tokens can be guessed.
	minTokenBits = 128

	// maxSecretBytes bounds how many bytes of the file of a token or a secret are read, so that
	// a user who names a log or /dev/zero gets an error.
	maxSecretBytes = 64 << 10

	// maxTokenBytes bounds a client's token and a configured one. A token must be decoded
	// before it can be verified, so the limit bounds the work that a client without a valid
	// token can cause. Signed tokens have a few hundred bytes.
	maxTokenBytes = 16 << 10

	// maxUnixTime bounds the times in a signed token, to some 35,000 years from now. The
	// calculation with the clock skew would overflow for later times.
	maxUnixTime = 1 << 40
)
