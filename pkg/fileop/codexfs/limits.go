package codexfs

const (
	// firstBuffer is the first size of the input buffer in bytes: the capacity of
	// a pipe. Unused pages of it take no memory.
	firstBuffer = 64 << 10
	// growBuffer is the factor by which a full buffer grows. With it, about a
	// third of a large request is copied while the buffer grows.
	growBuffer = 4

	// fileChunk is how many bytes of a file are read at a time. The first chunk is read before
	// the answer begins.
	fileChunk = 768 << 10

	// encodeChunk is how many bytes are encoded and written at a time. They fit into the
	// processor's cache, and the reader of the answer can start early. It is a multiple of
	// three, so that the base64 texts can be concatenated.
	encodeChunk = 96 << 10

	// largeAnswer is the size of an answer for which the pipe of stdout is enlarged to
	// pipeSize, the kernel's default limit for unprivileged users.
	largeAnswer = 64 << 10
	pipeSize    = 1 << 20
)
