package outputlog

import (
	"time"

	"codex.internal/pkg/host/process"
)

const (
	// MaxChunk is the most output that one record holds: the output of one event of a process.
	MaxChunk = process.MaxChunk

	// MinBytes is the minimum of Options.Bytes. It has space for several segments, so that most of
	// the newest output remains when one segment is removed.
	MinBytes = 1 << 20

	// segmentShare is the fraction of Options.Bytes for one segment, and maxSegment is the largest
	// size of a segment. Removing a segment frees that much space at a time. A reader that begins
	// in the middle of a segment reads at most that much to find its position.
	segmentShare = 8
	maxSegment   = 8 << 20

	// maxSegments bounds the segments of a directory that are read: 64 GiB of the largest.
	maxSegments = 8192

	// overshoot is how many bytes beyond Options.Bytes are retained for a process that was
	// signalled while it waited for space. It equals the capacity of its pipe. Otherwise the end of
	// the process could not be reported until a client consumes output.
	overshoot = 1 << 20

	// retryTime is the time between retries of a write for which the disk had no space.
	retryTime = 500 * time.Millisecond

	// maxHints bounds the remembered positions of readers. It is more than the usual number of
	// readers of one process.
	maxHints = 16

	// readBuffer is the buffer of a read from a segment.
	readBuffer = 128 << 10

	// statusBytes is the size of the file status. The file has this size from the beginning and is
	// overwritten at the end of the process, so this works even if the disk is full.
	statusBytes = 8 << 10
	// maxRefusal bounds the reason in the file status.
	maxRefusal = 4 << 10
)
