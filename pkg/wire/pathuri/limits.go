package pathuri

const (
	// MaxLength is the longest text, in bytes, that Parse looks at. The kernel
	// takes paths of 4096 bytes, and names a longer one as its own error, so
	// this only keeps a message of many megabytes from being decoded and
	// echoed as a path.
	MaxLength = 1 << 20

	// maxShown is how many bytes of a refused path an error text repeats:
	// enough for every path that the kernel would take.
	maxShown = 4096
)
