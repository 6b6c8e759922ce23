//go:build linux || darwin

package fshelper

const (
	// MaxRequest is the longest request in bytes: the longest message that a
	// server takes, a line over stdio, and a margin for the envelope.
	MaxRequest = 768<<20 + 64<<10

	// MaxAnswer is the longest answer in bytes: the base64 of the largest file
	// that is read at once is 683 MiB, and the longest listings are shorter.
	MaxAnswer = 768 << 20

	// maxMessage bounds the message of an error that the helper reports: the
	// longest that it makes names a few paths.
	maxMessage = 64 << 10

	// maxStderr is how much of the helper's stderr FailureText repeats. A
	// server need not read more than MaxStderr either.
	maxStderr = 4 << 10

	// MaxStderr is how much of the helper's stderr is worth keeping.
	MaxStderr = 2 * maxStderr
)
