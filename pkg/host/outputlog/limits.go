package outputlog

import (
	"time"

	"codex.internal/pkg/host/process"
)

const (
	// MaxChunk is the most output of one record: that of one event of a process.
	MaxChunk = process.MaxChunk

	// MinBytes is the minimum of Options.Bytes: several segments fit, so that
	// dropping one leaves most of the newest output.
	MinBytes = 1 << 20

	// segmentShare is the part of Options.Bytes that one segment takes, and maxSegment its
	// largest size: dropping a segment frees that much at a time, and a reader that begins
	// in the middle of a segment reads at most that much to find its position.
	segmentShare = 8
	maxSegment   = 8 << 20

	// maxSegments bounds the segments of a directory that are read: 64 GiB of the largest.
	maxSegments = 8192

	// overshoot is how much more than Options.Bytes is retained of a process that was
	// signalled while it waited for space: as much as its pipe may contain. Otherwise its
	// end could not be reported before a client consumes output.
	overshoot = 1 << 20

	// retryTime is the time between retries of a write for which the disk had no space.
	retryTime = 500 * time.Millisecond

	// maxHints bounds the remembered positions of readers: more than the readers that usually
	// follow one process.
	maxHints = 16

	// readBuffer is the buffer of a read from a segment.
	readBuffer = 128 << 10

	// statusBytes is the size of the file status, which is written in place at the end of
	// the process: this works even if the disk has become full.
	statusBytes = 8 << 10
	// maxRefusal bounds the reason in it.
	maxRefusal = 4 << 10
)
