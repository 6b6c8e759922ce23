package files

import "time"

const (
	// MaxReadFile is the largest file that OpenRegular opens, in bytes (docs/spec/wire.md §5.3).
	// The file is sent in one message.
	MaxReadFile = 512 << 20

	// WriteStall is how long a write to a pipe or terminal waits while its
	// reader takes nothing. A shell would wait until a person presses Ctrl-C; a
	// client has no such key.
	WriteStall = 10 * time.Second

	// MaxWalkDepth, MaxWalkDirectories and MaxWalkEntries are the largest limits
	// of a walk. They are Codex CLI's; with the longest names they bound a result
	// to some hundred MiB.
	MaxWalkDepth       = 64
	MaxWalkDirectories = 10_000
	MaxWalkEntries     = 50_000

	// maxNames bounds the names of one directory that are held in memory for sorting. It is four
	// times the number at which ls becomes unpleasant. With the longest names they take 300 MiB.
	maxNames = 1 << 20

	// removeBatch is how many names of one directory Remove holds at a time.
	// A full directory is read again after each batch.
	removeBatch = 1024

	// direntBuffer is how many bytes of a directory are read at a time.
	direntBuffer = 32 << 10

	// heldParents is how many parents of the current directory a cursor keeps open. Most trees are
	// not deeper. In a deeper tree the cursor returns by "..".
	heldParents = 8

	// copyBuffer is the size in bytes of the buffer for copies that the kernel cannot make itself.
	copyBuffer = 256 << 10

	// namedLeftOut is how many of the files that a copy omitted are listed, and namedLeftOutBytes
	// is the total length of their paths in bytes. This is enough to see which kind of files they
	// are. Even if each byte is escaped, the answer stays below 1 MiB.
	namedLeftOut      = 100
	namedLeftOutBytes = 256 << 10

	// maxLink is the kernel's limit on the target of a link, in bytes.
	maxLink = 4096

	// tempRandom is how many random bytes are in the name of a temporary file.
	tempRandom = 16

	// tempTries bounds the attempts to find a free name for a temporary file. The names are random,
	// so one attempt is enough unless an attacker creates files with the same names.
	tempTries = 10
)
