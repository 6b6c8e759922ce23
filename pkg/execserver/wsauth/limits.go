package wsauth

import "time"

const (
	// DefaultClockSkew is how far the clocks of signer and server may differ by
	// default: Codex CLI's value, enough for machines with synchronised clocks.
	DefaultClockSkew = 30 * time.Second

	// minSecretBytes is the shortest shared secret, the length of an HS256
	// signature: a shorter key is what limits its strength (RFC 7518, 3.2).
	minSecretBytes = 32

	// minTokenBits is the least strength of a capability token: 32 hexadecimal
	// digits or 22 characters of base64. Shorter tokens can be guessed.
	minTokenBits = 128

	// maxSecretBytes bounds the bytes that are read from the file of a token or
	// a secret: a user who names a log or /dev/zero gets an error.
	maxSecretBytes = 64 << 10

	// maxTokenBytes bounds a token, the client's and the configured one. A token
	// must be decoded before it can be verified, so the limit bounds the work
	// that a client without a valid token can cause; signed tokens have a few
	// hundred bytes.
	maxTokenBytes = 16 << 10

	// maxUnixTime bounds the times in a signed token, some 35,000 years from
	// now: later ones would overflow in the arithmetic with the clock skew.
	maxUnixTime = 1 << 40
)
