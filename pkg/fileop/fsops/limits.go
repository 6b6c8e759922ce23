package fsops

const (
	// maxFailures bounds the failed entries of an archive that one answer names, and
	// maxFailureBytes bounds the bytes of their texts. A block of 1 MiB has at most 2,048
	// entries, whose paths are rarely long.
	maxFailures     = 2048
	maxFailureBytes = 512 << 10
)
