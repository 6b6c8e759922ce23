package watch

import "time"

const (
	// maxMissing is how many missing paths a watch may have, and maxDirectories
	// how many directories it may need, existing or not: the numbers of Codex CLI.
	// Each existing directory costs one of the user's inotify watches, of which
	// the kernel gives 8,192 or more.
	maxMissing     = 64
	maxDirectories = 64

	// eventBytes is how many bytes of the inotify queue are read at a time. It must hold
	// one event with the longest name; 4 KiB hold at least 14.
	eventBytes = 4 << 10
)

const (
	// MaxTreeDirectories is how many directories a Tree watches: five times those of
	// the sources of Linux. Each takes about 1 KiB of the kernel's memory, which
	// cannot be swapped out, and 200 bytes here.
	MaxTreeDirectories = 32768

	// maxBatchEvents and maxBatchBytes bound a batch, except for the events of one read of the
	// inotify queue (eventBytes). The rest follows in the next batch.
	maxBatchEvents = 1024
	maxBatchBytes  = 128 << 10

	// settleTime is for how long the changes after a first one are gathered into its
	// batch. A program that writes a file makes an event for each write, and most
	// editors make five for one save.
	settleTime = 25 * time.Millisecond

	// readNames is how many names of a directory are read at a time.
	readNames = 512
)
