package archive

const (
	// block is the unit of a tar archive in bytes.
	block = 512

	// MaxPath is the longest path of an entry, and the longest target of a link, in
	// bytes: the limit of Linux.
	MaxPath = 4096

	// MaxDepth is how many directories may be in each other. Each takes a descriptor
	// meanwhile, and an archive could name more without an end.
	MaxDepth = 256

	// MaxEntries is how many entries an archive may have: sixteen times the largest trees
	// that are copied in practice.
	MaxEntries = 1 << 24

	// maxExtended is the longest extended header, in bytes: two paths, and the ranges of
	// a sparse file.
	maxExtended = 256 << 10

	// maxExtents bounds the ranges of data of a sparse file that are listed; with 40
	// bytes each they are less than maxExtended. The rest of the file is copied without holes.
	maxExtents = 4096

	// minHole is the smallest hole that is kept, in bytes: the description of a smaller one
	// takes more bytes than its zeros.
	minHole = 64 << 10

	// maxProblem bounds the text of a problem within an archive, in bytes.
	maxProblem = 1024

	// maxNames is how many names of all directories that a Packer is in are held at a
	// time: with the longest ones 300 MiB. A directory with more is left out.
	maxNames = 1 << 20

	// smallFile is up to which size a file is read before its header is written, in
	// bytes, so that its size is right even if it changes meanwhile.
	smallFile = 64 << 10

	// tempTries bounds the attempts to find a free temporary name. The names are random,
	// so one is enough unless somebody makes files with the same names.
	tempTries = 10
)
