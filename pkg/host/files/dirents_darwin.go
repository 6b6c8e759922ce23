package files

// Offsets in the system's struct dirent.
const (
	direntInode  = 0
	direntLength = 16
	direntType   = 20
	direntName   = 21
)
