package fshelper

const (
	// MaxRequest is the length of the longest request in bytes: the longest message that a
	// server accepts over stdio, and a margin for the envelope.
	MaxRequest = 768<<20 + 64<<10

	// MaxAnswer is the length of the longest answer that is held whole, in bytes: enough for a
	// listing of a million names. Files are not held whole.
	MaxAnswer = 256 << 20

	// maxMessage bounds the message of an error that the helper reports, in bytes;
	// the longest one names a few paths.
	maxMessage = 64 << 10

	// maxStderr bounds how many bytes of the helper's stderr are in FailureText.
	maxStderr = 4 << 10

	// MaxStderr is how many bytes of the helper's stderr a server must retain for FailureText.
	MaxStderr = 2 * maxStderr
)
