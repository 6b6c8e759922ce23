package installed

const (
	// maxName bounds the length of a skill's name, in characters, as in Codex CLI.
	maxName = 64

	// maxYAML bounds the head of a skill, and its metadata, in bytes. The longest known heads
	// have 4 KiB.
	maxYAML = 64 << 10
	// maxYAMLDepth bounds the nesting of values.
	maxYAMLDepth = 32

	// MaxLocations bounds the examined plugins, maxEntries the plugins and skills of an answer,
	// and maxAnswer the bytes of an answer, as in Codex CLI.
	MaxLocations = 512
	maxEntries   = 2048
	maxAnswer    = 4 << 20

	// MaxRemoteInstall bounds the file that names a plugin's id in another system, and
	// maxRemoteID bounds that id, in bytes, as in Codex CLI.
	MaxRemoteInstall = 16 << 10
	maxRemoteID      = 1024
)
