package peercred

const (
	// maxStatus is how many bytes of /proc/PID/status are read. It has 1.5
	// KB, and a list of groups.
	maxStatus = 1 << 20

	// usualStatus is the size of the first buffer for it.
	usualStatus = 4 << 10

	// maxAncestors bounds how far the parents of a process are followed, in
	// generations. Pid reuse could otherwise make a circle.
	maxAncestors = 256

	// namesSize is the size of the buffer that a scan reads names into, in bytes: 300 descriptors at a time.
	namesSize = 8 << 10

	// maxUnknown bounds the children of kthreadd that a scan checks, as each takes 15 microseconds. For others it
	// reads the descriptors, as for all processes.
	maxUnknown = 32

	// maxScanners bounds the goroutines of a scan: each is in system calls all the time.
	maxScanners = 4

	// maxTable bounds the fallback that reads the tables of /proc/net, in
	// bytes: 150 per socket, so 400,000 sockets.
	maxTable = 64 << 20
)
