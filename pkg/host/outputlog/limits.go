package outputlog

import (
	"time"

	"codex.internal/pkg/host/process"
)

const (
	// MaxChunk is the most output of one record: what one event of a process carries.
	MaxChunk = process.MaxChunk

	// MinBytes is the least that Options.Bytes may be: room for several segments, so that
	// dropping one leaves most of the newest output.
	MinBytes = 1 << 20

	// segmentShare is the part of Options.Bytes that one segment takes, and maxSegment its
	// largest size: dropping one frees as much at a time, and a reader that begins in the
	// middle of one reads up to as much to find its place.
	segmentShare = 8
	maxSegment   = 8 << 20

	// maxSegments bounds the segments of a directory that are read: 64 GiB of the largest.
	maxSegments = 8192

	// overshoot is how much more than Options.Bytes is kept of a process that was signalled
	// while it waited for room: as much as its pipe may hold. Otherwise its end could not
	// be told before somebody makes room.
	overshoot = 1 << 20

	// retryTime is how often a write is tried again for which the disk had no room.
	retryTime = 500 * time.Millisecond

	// maxHints bounds the remembered places where readers went on: more than usually
	// follow one process.
	maxHints = 16

	// readBuffer is the buffer of a read from a segment.
	readBuffer = 128 << 10

	// statusBytes is the size of the file status, which is written in place at the end of
	// the process: that needs no room on a disk that is full meanwhile.
	statusBytes = 8 << 10
	// maxRefusal bounds the reason in it.
	maxRefusal = 4 << 10
)
