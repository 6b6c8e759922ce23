package skills

const (
	// maxDepth, maxDirectories and maxWalkEntries bound the walk of a root, as in Codex CLI.
	maxDepth       = 6
	maxDirectories = 2000
	maxWalkEntries = 20_000

	// maxFile bounds one file and maxRoot the files of one root, as in Codex CLI.
	maxFile = 1 << 20
	maxRoot = 16 << 20
	// MaxBytes bounds the files of all roots of a request. Without it, 128
	// roots of maxRoot would make one message of 2 GiB.
	MaxBytes = 64 << 20

	// maxWarnings bounds the warnings of one root: a tree of 2,000 directories
	// that cannot be read would fill megabytes with paths.
	maxWarnings = 256
)
