package fsops

const (
	// maxFailures is how many entries of an archive that were not put in their places one
	// answer names, and maxFailureBytes how many bytes of text that may be: a block of
	// 1 MiB has at most 2,048 entries, whose paths are rarely long.
	maxFailures     = 2048
	maxFailureBytes = 512 << 10
)
