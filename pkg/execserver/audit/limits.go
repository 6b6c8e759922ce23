package audit

import "time"

const (
	// MaxRecord bounds a line, in bytes. A longer line is written without its arguments and
	// paths, and is marked.
	MaxRecord = 64 << 10
	// MaxStreamRecord bounds a line of a stream, with its newline: container runtimes cut a
	// line of standard output after 16 KiB, and journald after 48 KiB.
	MaxStreamRecord = 16<<10 - 1

	// DefaultMaxBytes is the size after which the log begins a new file.
	DefaultMaxBytes = 64 << 20
	// LeastMaxBytes is the smallest size that may be chosen: a few lines of MaxRecord bytes.
	LeastMaxBytes = 1 << 20

	// signRecords and signInterval are the number of lines, and the time after a line, after
	// which the log writes a signature and flushes the file to the disk. A signature takes 50
	// µs and a flush some milliseconds. At the same times the log checks whether another
	// program has changed the file.
	signRecords  = 256
	signInterval = 5 * time.Second

	// awayTime is how long the file may have another name before a SIGHUP arrives. logrotate
	// sends the signal immediately, and compresses or mails nothing before.
	awayTime = 10 * time.Second

	// refusalInterval and maxRefusals bound the records of refusals, so that clients without a
	// token cannot fill the disk.
	refusalInterval = time.Minute
	maxRefusals     = 1024
)
