//go:build linux || darwin

package process

import "time"

const (
	// MaxChunk is the most output that one event carries, and the size of a
	// read: as much as a pipe holds by default.
	MaxChunk = 64 << 10

	// keepWhole is the size from which a read's buffer itself becomes the
	// retained chunk. Smaller reads are copied, so that a retained chunk
	// never takes more than twice its size in memory.
	keepWhole = MaxChunk / 2

	// MaxRetained is how much of its newest output a process retains.
	MaxRetained = 1 << 20

	// maxChunks bounds the number of retained chunks, because a tiny one
	// costs more than its bytes.
	maxChunks = 16 << 10

	// MinWindow is the smallest window of unacknowledged output: with less
	// than a chunk every chunk would wait for an acknowledgement.
	MinWindow = MaxChunk
	// MaxWindow is the largest. With the chunk that may exceed it, it is well
	// within MaxRetained, so that whoever lost a connection finds all that it
	// has not acknowledged.
	MaxWindow = MaxRetained / 2
	// maxUnacked bounds the number of unacknowledged events for the same
	// reason: only maxChunks of them are retained.
	maxUnacked = maxChunks / 2

	// rememberedWrites is how many write ids a process remembers.
	rememberedWrites = 4096

	// drainTime is how long a terminal's output is waited for, without
	// progress, before the exit is told: the kernel hands it over from a
	// work queue. What is in a pipe can be counted and needs no wait.
	drainTime = 20 * time.Millisecond

	// drainTerminal bounds how much of a terminal's output is taken before
	// the exit is told; the kernel buffers less.
	drainTerminal = 256 << 10

	// cutTime is how long after a terminate the output may still be held
	// open by somebody who could not be killed.
	cutTime = 250 * time.Millisecond

	// leftoverTime is what the descendants of a process that has ended get
	// to end in order when it is terminated: the reference leaves them alone
	// altogether, and clients see their last output.
	leftoverTime = 1500 * time.Millisecond

	// settleTime is what a Patient program gets to take everything with it
	// when it is killed: it is over in less than a millisecond when the
	// machine is idle.
	settleTime = 100 * time.Millisecond
	// tidyTime is what those called JanitorName get besides: a busy machine
	// may not let them run for a while.
	tidyTime = 3 * time.Second

	// tidyPoll is how often it is looked whether they are done.
	tidyPoll = 5 * time.Millisecond

	// freezeRounds bounds how often the process table is searched for
	// descendants that are being started faster than they are stopped.
	freezeRounds = 64

	// defaultRows and defaultCols are a terminal's first size.
	defaultRows, defaultCols = 24, 80

	// defaultPath is where a program is looked up when the environment has
	// no PATH, as execvp does.
	defaultPath = "/bin:/usr/bin"

	// rememberedLeaders bounds the ended session leaders of a group whose
	// sessions are searched for survivors when the group ends without a
	// cgroup.
	rememberedLeaders = 64 << 10
)
