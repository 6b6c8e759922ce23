package installed

const (
	// maxName bounds a skill's name in characters, as with Codex CLI.
	maxName = 64

	// maxYAML bounds the head of a skill and its metadata, in bytes. The longest
	// heads that are known have 4 KiB.
	maxYAML = 64 << 10
	// maxYAMLDepth bounds the nesting of values.
	maxYAMLDepth = 32

	// MaxLocations bounds the plugins that are examined, maxEntries the plugins
	// and skills of an answer, and maxAnswer its bytes; as with Codex CLI.
	MaxLocations = 512
	maxEntries   = 2048
	maxAnswer    = 4 << 20

	// MaxRemoteInstall bounds the file that names a plugin's id elsewhere, and
	// maxRemoteID that id, in bytes; as with Codex CLI.
	MaxRemoteInstall = 16 << 10
	maxRemoteID      = 1024
)
