package files

// Offsets in the kernel's struct linux_dirent64.
const (
	direntInode  = 0
	direntLength = 16
	direntType   = 18
	direntName   = 19
)
