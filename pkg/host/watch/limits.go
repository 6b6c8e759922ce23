package watch

import "time"

const (
	// maxMissing bounds the missing paths of a watch, and maxDirectories the
	// directories that it needs, existing or not. The numbers are Codex CLI's.
	// Each existing directory costs one of the user's inotify watches, of which
	// the kernel permits 8,192 or more.
	maxMissing     = 64
	maxDirectories = 64

	// eventBytes is how many bytes of the inotify queue are read at a time. It must hold
	// one event with the longest name; 4 KiB hold at least 14.
	eventBytes = 4 << 10
)

const (
	// MaxTreeDirectories bounds the directories that a Tree watches: five times as
	// many as the sources of Linux have. Each takes about 1 KiB of kernel memory,
	// which cannot be swapped out, and 200 bytes here.
	MaxTreeDirectories = 32768

	// maxBatchEvents and maxBatchBytes bound a batch, except for the events of one read of the
	// inotify queue (eventBytes). The rest follows in the next batch.
	maxBatchEvents = 1024
	maxBatchBytes  = 128 << 10

	// settleTime is how long changes after a first one are collected into its batch.
	// A program that writes a file makes an event for each write, and most editors
	// make five when they save.
	settleTime = 25 * time.Millisecond

	// readNames is how many names of a directory are read at a time.
	readNames = 512
)
