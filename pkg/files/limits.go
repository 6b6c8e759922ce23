package files

const (
	// MaxReadFile is the largest file that is read in one piece (section 5).
	MaxReadFile = 512 << 20

	// maxLink is the longest target of a link, as the kernel has it.
	maxLink = 4096

	// maxWalkErrors bounds the errors that a walk reports one by one.
	maxWalkErrors = 1000

	// tempTries bounds how often a free name for a temporary file is sought.
	tempTries = 100
)
