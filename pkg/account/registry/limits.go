package registry

import "time"

const (
	// registerTimeout bounds a registration. Codex CLI waits forever. A server that is being
	// started would then hang without a message.
	registerTimeout = 30 * time.Second

	// connectTimeout bounds the request how to connect. A whole attempt to connect may not take
	// much longer.
	connectTimeout = 10 * time.Second

	// validateTimeout bounds the request whether a harness may connect. The harness waits for its
	// handshake meanwhile.
	validateTimeout = 10 * time.Second

	// maxAnswer bounds how much of an answer is read, in bytes after decoding. The longest answer has a key of 2
	// KiB and an authorization of 4 KiB.
	maxAnswer = 64 << 10

	// maxPreview bounds how much of an answer an error repeats, in characters, if the
	// answer has no error message.
	maxPreview = 4096
)
