package wsauth

import "time"

const (
	// DefaultClockSkew is how far the clocks of signer and server may differ
	// when nothing else is said: what the reference grants, enough for
	// machines that keep time at all.
	DefaultClockSkew = 30 * time.Second

	// minSecretBytes is the shortest shared secret, the length of an HS256
	// signature: a shorter key is what limits its strength (RFC 7518, 3.2).
	minSecretBytes = 32

	// minTokenBits is what a capability token must be able to hold, in bits: 32
	// hexadecimal digits or 22 characters of base64. Fewer can be guessed by
	// whoever reaches the port for long enough.
	minTokenBits = 128

	// maxSecretBytes bounds what is read of a file with a token or a secret.
	// Somebody who names a log or /dev/zero gets an error, not a full memory.
	maxSecretBytes = 64 << 10

	// maxTokenBytes bounds a token, the client's and the configured one. It
	// has to be decoded before it can be verified, so its size is what a
	// stranger can make the server do; signed tokens have a few hundred bytes.
	maxTokenBytes = 16 << 10

	// maxUnixTime bounds the times in a signed token, some 35,000 years from
	// now: later ones would overflow in the arithmetic with the clock skew.
	maxUnixTime = 1 << 40
)
