package files

import "time"

const (
	// MaxReadFile is the largest file, in bytes, that OpenRegular opens
	// (docs/spec/wire.md §5.3): it is answered in one message.
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

	// maxNames bounds the names of one directory that are held at a time for
	// sorting: four times as many as make ls unpleasant, and at most 300 MiB
	// with the longest names.
	maxNames = 1 << 20

	// removeBatch is how many names of one directory Remove holds at a time.
	// A full directory is read again after each batch.
	removeBatch = 1024

	// direntBuffer is how many bytes of a directory are read at a time.
	direntBuffer = 32 << 10

	// heldParents is how many of the directories above the current one a cursor
	// keeps open. Most trees are not deeper; in deeper ones it returns by "..".
	heldParents = 8

	// copyBuffer is the buffer, in bytes, for copies that the kernel does not
	// make by itself.
	copyBuffer = 256 << 10

	// namedLeftOut is how many of the files that a copy omitted are listed, and
	// namedLeftOutBytes the total length of their paths in bytes. This is enough to
	// see which kind of files they are, and the answer stays below 1 MiB even if
	// each byte is escaped.
	namedLeftOut      = 100
	namedLeftOutBytes = 256 << 10

	// maxLink is the kernel's limit on the target of a link, in bytes.
	maxLink = 4096

	// tempRandom is how many random bytes are in the name of a temporary file.
	tempRandom = 16

	// tempTries bounds the attempts to find a free name for a temporary file.
	// The names are random, so one attempt is enough unless an attacker makes
	// files with the same names.
	tempTries = 10
)
