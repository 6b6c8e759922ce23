//go:build linux

package fshelper

const (
	// firstBuffer is the input buffer to begin with: all of a pipe. What is
	// not used of it is never touched.
	firstBuffer = 64 << 10
	// growBuffer is by how much a full buffer grows. What is copied on the way
	// to a large request is a third of it.
	growBuffer = 4

	// readAll is the size of files that are read to their end; of larger ones
	// only what they held when they were opened. The server does the same.
	readAll = 256 << 10
	// fileChunk is how much of a file is read at a time, and before the
	// answer begins.
	fileChunk = 768 << 10

	// encodeChunk is how much is encoded and written at a time: it stays in
	// the processor's cache, and the reader can begin. A multiple of three,
	// so that the base64 texts join up.
	encodeChunk = 96 << 10

	// largeAnswer is the size from which on stdout's pipe is made larger, to
	// pipeSize, which is what the kernel allows everybody.
	largeAnswer = 64 << 10
	pipeSize    = 1 << 20
)
