package peercred

const (
	// maxStatus is how many bytes of /proc/PID/status are read. The file has 1.5 KB and a list of
	// groups.
	maxStatus = 1 << 20

	// usualStatus is the size of the first buffer for /proc/PID/status.
	usualStatus = 4 << 10

	// maxAncestors bounds how many generations of parents of a process are examined. Otherwise a
	// reused pid could make an endless loop.
	maxAncestors = 256

	// namesSize is the size of the buffer that a scan reads names into, in bytes: 300 descriptors at a time.
	namesSize = 8 << 10

	// maxUnknown bounds how many children of kthreadd a scan checks, because each check takes 15
	// microseconds. For further ones the scan reads the descriptors, as for any process.
	maxUnknown = 32

	// maxScanners bounds the goroutines of a scan. Each is always in a system call.
	maxScanners = 4

	// maxTable bounds the tables of /proc/net that the fallback reads, in bytes. A socket takes 150
	// bytes, so this is enough for 400,000 sockets.
	maxTable = 64 << 20
)
