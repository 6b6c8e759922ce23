package threads

import "time"

const (
	// serverFiles is how many goroutines of a server are in system calls about files at a time, beside one for each
	// processor. Disks are not faster with more; a network file system may be.
	serverFiles = 20
	// serverStarts is for the directories of PATH, and those of sandboxes.
	serverStarts = 4
	// serverWork is for the searches of /proc, for cgroups, and for launchers that take an order.
	serverWork = 8
	// serverSpare counts the threads that are never free: the runtime's monitor and its template for threads, those that
	// wait for signals, for descriptors, for watches and for standard input, and some for system calls that no pool bounds.
	serverSpare = 16

	// A keeper has one process, and serves few clients. There may be hundreds of keepers.
	keeperFiles, keeperStarts, keeperWork, keeperSpare = 2, 1, 2, 9

	// aheadShare is the part of what the machine still gives that threads are made of at most: commands
	// need the rest.
	aheadShare = 4

	// growTime is how long calls wait before their pool grows: bursts of short ones need no threads.
	growTime = 10 * time.Millisecond
	// retryTime is the time between two looks whether a pool can grow that could not.
	retryTime = 100 * time.Millisecond
	// mostSlots is how large it gets: the Go runtime ends a program with 10,000 threads.
	mostSlots = 1024
	// roomToGrow is how many processes and threads the machine must leave after that. Between the look at the
	// limits and the new threads, 30 microseconds for each, a fork bomb may start some: it starts 10 in a millisecond.
	roomToGrow = 128
	// roomToCount is what the machine must leave so that the user's threads are not counted.
	roomToCount = roomToGrow + mostSlots
)
