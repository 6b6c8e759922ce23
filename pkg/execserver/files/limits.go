package files

import (
	"time"

	"codex.internal/pkg/execserver/reply"
)

const (
	// MaxFileCalls bounds the requests of all connections whose system calls about files are made at a time: each may
	// hold a thread for as long as a file system hangs. Together with the starts that plan their sandboxes
	// (pkg/execserver: maxStartCalls) and process.maxLookups they leave a quarter of the 256 threads that commands leave
	// the server (pkg/host/process, tasks_linux.go).
	MaxFileCalls = 128

	// maxWatches bounds the watches of a connection, and MaxServerWatches those of all: each holds an
	// inotify instance, of which the server takes at most half of the user's (128 unless the machine is set
	// up otherwise), and a confined one a helper.
	maxWatches       = 8
	MaxServerWatches = 512

	// wholeFile is the largest file that is read into memory before its answer
	// begins, in whole chunks. The answer for a larger file is sent while the
	// file is read, and a read error in the middle of it ends the connection.
	wholeFile = 85 * reply.Chunk

	// cacheDirectories and cacheEntries bound the walk of the plugin cache:
	// twenty versions of each of the 512 plugins that an answer may contain.
	cacheDirectories = 10_000
	cacheEntries     = 20_000

	// helperEnd is how long a helper may run after the end of its input. It is
	// killed then.
	helperEnd = 5 * time.Second
)
