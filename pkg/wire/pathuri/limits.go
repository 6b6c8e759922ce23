package pathuri

const (
	// MaxLength is the length of the longest text, in bytes, that Parse accepts. The kernel
	// accepts paths of 4096 bytes and has an error for longer ones. This limit only prevents
	// Parse from decoding a text of many megabytes.
	MaxLength = 1 << 20

	// maxShown is how many bytes of an invalid path are in an error text: enough
	// for every path that the kernel accepts.
	maxShown = 4096
)
