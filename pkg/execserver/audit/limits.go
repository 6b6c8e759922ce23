package audit

import "time"

const (
	// MaxRecord bounds a line, in bytes: a longer one is written without its arguments and
	// paths, and marked.
	MaxRecord = 64 << 10

	// DefaultMaxBytes is the size of a file after which a new one is begun.
	DefaultMaxBytes = 64 << 20
	// LeastMaxBytes is the smallest size that may be chosen: a few lines of MaxRecord bytes.
	LeastMaxBytes = 1 << 20

	// signRecords and signInterval are after how many lines, and how long after a line, a
	// signature is written and the file is flushed to the disk. A signature takes 50 µs and
	// a flush some milliseconds.
	signRecords  = 256
	signInterval = 10 * time.Second
)
