package archive

const (
	// block is the unit of a tar archive in bytes.
	block = 512

	// MaxPath is the longest path of an entry, and the longest target of a link, in
	// bytes: the limit of Linux.
	MaxPath = 4096

	// MaxDepth bounds how deep directories may be nested. Each open level takes a descriptor,
	// and an archive could have any number of levels.
	MaxDepth = 256

	// MaxEntries bounds the entries of an archive: sixteen times as many as the largest trees
	// that are copied in practice.
	MaxEntries = 1 << 24

	// maxExtended is the length of the longest extended header, in bytes: two paths, and the
	// data ranges of a sparse file.
	maxExtended = 256 << 10

	// maxExtents bounds the listed data ranges of a sparse file. With 40 bytes each, they take
	// less than maxExtended. The rest of the file is copied without holes.
	maxExtents = 4096

	// minHole is the size of the smallest hole that is preserved, in bytes. The description of
	// a smaller hole would take more bytes than its zeros.
	minHole = 64 << 10

	// sparsePiece is the size of the pieces that Put writes, in bytes. Those of zeros become holes.
	sparsePiece = 16 << 10

	// maxProblem bounds the text of a problem within an archive, in bytes.
	maxProblem = 1024

	// maxNames bounds the names that a Packer holds at a time, for all directories that it is
	// reading: 300 MiB with the longest names. If a directory would exceed it, the Packer
	// leaves the directory out.
	maxNames = 1 << 20

	// smallFile is the size, in bytes, up to which a file is read before its header is written.
	// The size in the header is then right even if the file changes while it is read.
	smallFile = 64 << 10

	// tempTries bounds the attempts to find a free temporary name. The names are random,
	// so one is enough unless another process makes files with the same names.
	tempTries = 10
)
