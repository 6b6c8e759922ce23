package registry

import "time"

const (
	// registerTimeout bounds a registration. Codex CLI waits for ever, and a
	// server that is started would hang without a message.
	registerTimeout = 30 * time.Second

	// connectTimeout bounds the question how to connect: an attempt to
	// connect as a whole has not much longer.
	connectTimeout = 10 * time.Second

	// validateTimeout bounds the question whether a harness may connect, from
	// which the harness waits for its handshake.
	validateTimeout = 10 * time.Second

	// maxAnswer bounds what is read of an answer, in bytes. The longest has a
	// key of 2 KiB and an authorization of 4 KiB.
	maxAnswer = 64 << 10

	// maxPreview bounds how much of an answer an error repeats, in characters, if the
	// answer has no error message.
	maxPreview = 4096
)
