package watch

const (
	// maxMissing is how many missing paths a watch may have, and maxDirectories
	// how many directories it may need, existing or not: the numbers of Codex CLI.
	// Each existing directory costs one of the user's inotify watches, of which
	// the kernel gives 8,192 or more.
	maxMissing     = 64
	maxDirectories = 64

	// eventBytes is how much is read of the inotify queue at a time. It must hold
	// one event with the longest name; 4 KiB hold at least 14.
	eventBytes = 4 << 10
)
