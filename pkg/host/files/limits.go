//go:build linux || darwin

package files

import "time"

const (
	// MaxReadFile is the largest file, in bytes, that OpenRegular opens
	// (section 5): it is answered in one message.
	MaxReadFile = 512 << 20

	// WriteStall is how long a write to a pipe or terminal waits for its
	// reader to take anything at all. A person at a shell would wait for ever
	// and press Ctrl-C; a client over a wire has no such key.
	WriteStall = 10 * time.Second

	// MaxWalkDepth, MaxWalkDirectories and MaxWalkEntries are the largest
	// limits that a walk may be given. They are the reference's; with the
	// longest names they bound a result to some hundred MiB.
	MaxWalkDepth       = 64
	MaxWalkDirectories = 10_000
	MaxWalkEntries     = 50_000

	// maxNames is how many names of one directory are held at a time where
	// all of them are needed, to be sorted: four times what makes ls
	// unpleasant, and at most 300 MiB with the longest names.
	maxNames = 1 << 20

	// removeBatch is how many names of one directory Remove holds at a time.
	// A full directory is read again after each batch.
	removeBatch = 1024

	// direntBuffer is how many bytes of a directory are read at a time.
	direntBuffer = 32 << 10

	// heldParents is how many of the directories above its place a cursor
	// keeps open. Most trees are not deeper; in those that are, it goes back
	// by "..".
	heldParents = 8

	// copyBuffer is the buffer, in bytes, for copies that the kernel does not
	// make by itself.
	copyBuffer = 256 << 10

	// showSpecial is how many special files the error of a copy names.
	showSpecial = 5

	// maxLink is the longest target of a link, in bytes, as the kernel has it.
	maxLink = 4096

	// tempRandom is how many random bytes are in the name of a temporary file.
	tempRandom = 16

	// tempTries bounds how often a free name for a temporary file is sought.
	// The names are random, so a second try is already a sign of sabotage.
	tempTries = 10
)
