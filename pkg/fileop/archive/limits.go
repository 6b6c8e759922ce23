package archive

const (
	// block is the unit of a tar archive in bytes.
	block = 512

	// MaxPath is the longest path of an entry, and the longest target of a link, in
	// bytes: the limit of Linux.
	MaxPath = 4096

	// MaxDepth bounds how deep directories may be nested. Each takes a descriptor
	// meanwhile, and an archive could name any number.
	MaxDepth = 256

	// MaxEntries is how many entries an archive may have: sixteen times the largest trees
	// that are copied in practice.
	MaxEntries = 1 << 24

	// maxExtended is the longest extended header, in bytes: two paths, and the ranges of
	// a sparse file.
	maxExtended = 256 << 10

	// maxExtents bounds the listed data ranges of a sparse file; with 40 bytes each they take
	// less than maxExtended. The rest of the file is copied without holes.
	maxExtents = 4096

	// minHole is the smallest hole that is preserved, in bytes: the description of a
	// smaller one takes more bytes than its zeros.
	minHole = 64 << 10

	// maxProblem bounds the text of a problem within an archive, in bytes.
	maxProblem = 1024

	// maxNames bounds the names that a Packer holds at a time, for all directories
	// that it is in: with the longest names 300 MiB. A directory with more is left
	// out.
	maxNames = 1 << 20

	// smallFile is up to which size a file is read before its header is written, in
	// bytes, so that its size is right even if it changes meanwhile.
	smallFile = 64 << 10

	// tempTries bounds the attempts to find a free temporary name. The names are random,
	// so one is enough unless another process makes files with the same names.
	tempTries = 10
)
