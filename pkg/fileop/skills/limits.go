package skills

const (
	// maxDepth, maxDirectories and maxWalkEntries bound the walk of a root, as with
	// Codex CLI.
	maxDepth       = 6
	maxDirectories = 2000
	maxWalkEntries = 20_000

	// maxFile bounds one file and maxRoot the files of one root, as with Codex CLI.
	maxFile = 1 << 20
	maxRoot = 16 << 20
	// MaxBytes bounds the files of all roots of a request: 128 roots of maxRoot
	// would be an answer of 2 GiB, and a client gets it as one message.
	MaxBytes = 64 << 20

	// maxWarnings bounds the warnings of one root: a tree of 2,000 directories
	// that cannot be read would fill megabytes with paths.
	maxWarnings = 256

	// maxName bounds a skill's name in characters, as with Codex CLI.
	maxName = 64

	// maxYAML bounds the head of a skill and its metadata, in bytes. The longest
	// heads that are known have 4 KiB.
	maxYAML = 64 << 10
	// maxYAMLDepth bounds the values within each other.
	maxYAMLDepth = 32

	// MaxLocations bounds the plugins that are looked at, maxEntries the plugins
	// and skills of an answer, and maxAnswer its bytes; as with Codex CLI.
	MaxLocations = 512
	maxEntries   = 2048
	maxAnswer    = 4 << 20

	// MaxRemoteInstall bounds the file that names a plugin's id elsewhere, and
	// maxRemoteID that id, in bytes; as with Codex CLI.
	MaxRemoteInstall = 16 << 10
	maxRemoteID      = 1024
)
