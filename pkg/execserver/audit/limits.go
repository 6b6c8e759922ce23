package audit

import "time"

const (
	// MaxRecord bounds a line, in bytes: a longer one is written without its arguments and
	// paths, and marked.
	MaxRecord = 64 << 10
	// MaxStreamRecord is the same for lines of a stream, with the newline: container runtimes cut a line of standard
	// output after 16 KiB, and journald after 48 KiB.
	MaxStreamRecord = 16<<10 - 1

	// DefaultMaxBytes is the size of a file after which a new one is begun.
	DefaultMaxBytes = 64 << 20
	// LeastMaxBytes is the smallest size that may be chosen: a few lines of MaxRecord bytes.
	LeastMaxBytes = 1 << 20

	// signRecords and signInterval are after how many lines, and how long after a line, a
	// signature is written and the file is flushed to the disk. A signature takes 50 µs and
	// a flush some milliseconds. As often it is looked whether somebody else has changed the file.
	signRecords  = 256
	signInterval = 5 * time.Second

	// awayTime is how long the file may have another name before a SIGHUP: logrotate sends it at once, and compresses
	// or mails nothing before.
	awayTime = 10 * time.Second

	// refusalInterval and maxRefusals bound the records of refusals: clients without a token must not fill the disk.
	refusalInterval = time.Minute
	maxRefusals     = 1024
)
