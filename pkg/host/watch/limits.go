package watch

import "time"

const (
	// maxMissing bounds the missing paths of a watch, and maxDirectories the directories that it
	// needs, whether they exist or not. The numbers are Codex CLI's. Each existing directory costs
	// one of the user's inotify watches, of which the kernel permits 8,192 or more.
	maxMissing     = 64
	maxDirectories = 64

	// eventBytes is how many bytes of the inotify queue are read at a time. It must have space for
	// one event with the longest name; 4 KiB have space for at least 14.
	eventBytes = 4 << 10
)

const (
	// maxPendingBytes bounds the events of a watch that other watches of its Instance have read, and
	// that it has not read itself: a few thousand. Beyond that the watch loses them.
	maxPendingBytes = 128 << 10

	// maxInstanceDirectories bounds the directories of all watches of an Instance. Scenario: a
	// client watches a tree eight times. The kernel counts each directory once, but the program
	// needs memory for each watch.
	maxInstanceDirectories = 2 * MaxTreeDirectories

	// MaxTreeDirectories bounds the directories that a Tree watches. It is five times the number of
	// directories in the sources of Linux. Each takes about 1 KiB of kernel memory, which cannot be
	// swapped out, and 200 bytes in this program.
	MaxTreeDirectories = 32768

	// maxBatchEvents and maxBatchBytes bound a batch. One read of the inotify queue (eventBytes)
	// may exceed them. The other events are in the next batch.
	maxBatchEvents = 1024
	maxBatchBytes  = 128 << 10

	// settleTime is how long, after a first change, further changes are collected into its batch. A
	// program that writes a file causes an event for each write, and most editors cause five when
	// they save.
	settleTime = 25 * time.Millisecond

	// readNames is how many names of a directory are read at a time.
	readNames = 512
)
