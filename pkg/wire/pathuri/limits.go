package pathuri

const (
	// MaxLength is the longest text, in bytes, that Parse accepts. The kernel
	// accepts paths of 4096 bytes and has an error for longer ones; this limit
	// only prevents a text of many megabytes from being decoded as a path.
	MaxLength = 1 << 20

	// maxShown is how many bytes of an invalid path are in an error text: enough
	// for every path that the kernel accepts.
	maxShown = 4096
)
