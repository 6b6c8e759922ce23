package broker

import "time"

const (
	// usualThreads is how many threads answer calls. A call waits longer for a processor than for its answer, and with one thread a
	// signal that comes before the thread has received a call ends it with EINTR in one of four cases, with four in one of 100.
	usualThreads = 4
	// maxThreads bounds the threads. More than usualThreads are started while all are busy: a file system that does not answer holds one.
	maxThreads = 64
	// maxFIFOs bounds the FIFOs that wait for a reader and sockets that wait for a listener, and those that wait to be taken for that. Each has a descriptor, and a process
	// usually may have 1024. With 64, one of 100 writers failed if the thread for FIFOs did not run soon enough.
	maxFIFOs = 256
	// maxSockets bounds the sockets that are neither bound nor connected. A program that makes more before it uses them cannot use the oldest.
	maxSockets = 256
	// maxBound bounds the names of sockets that are kept.
	maxBound = 256
	// maxShared bounds the files of a sandbox in /dev/shm.
	maxShared = 256
	// maxTerminals bounds the pseudoterminals of a sandbox: tmux has one for each of its panes.
	maxTerminals = 128
	// leastDelay and mostDelay bound the time between two attempts to open a FIFO: a reader usually comes at once, or takes long.
	leastDelay, mostDelay = 100 * time.Microsecond, 20 * time.Millisecond
	// maxPath is PATH_MAX: the size of a path, with its NUL.
	maxPath = 4096
	// maxLinks is how many links that lead nowhere are followed for a new file, as in the kernel.
	maxLinks = 40
	// maxTries bounds how often an open begins again because the file has appeared or vanished meanwhile.
	maxTries = 100
	// maxAttribute is XATTR_SIZE_MAX: the size of the value of an extended attribute.
	maxAttribute = 64 << 10
	// maxAttributeName is XATTR_NAME_MAX, and the NUL.
	maxAttributeName = 256
	// maxHow bounds struct open_how, as the kernel does: one page.
	maxHow = 4096
)
