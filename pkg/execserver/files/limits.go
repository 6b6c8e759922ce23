package files

import (
	"time"

	"codex.internal/pkg/execserver/reply"
)

const (
	// MaxFileCalls bounds the concurrent requests of all connections that make system calls on
	// files: each may block a thread for as long as a file system hangs. The program has 256
	// threads that commands do not use (pkg/host/process, tasks_linux.go). MaxFileCalls, the
	// starts that plan their sandboxes (pkg/execserver/confine: maxStartCalls) and
	// process.maxLookups together leave a quarter of them free.
	MaxFileCalls = 128

	// maxWatches bounds the watches of a connection, and MaxServerWatches the inotify instances
	// of all connections. Each confined watch takes one, in its helper, and all other watches of
	// a connection share one. A helper with several watches would save instances, but it would need
	// a protocol that mixes their batches, and a rule for which requests have the same sandbox. The
	// server takes at most half of the user's inotify instances, of which there are 128 by default.
	maxWatches       = 8
	MaxServerWatches = 512

	// helperDescriptors is how many descriptors a helper takes: three pipes and its pidfd.
	helperDescriptors = 4

	// wholeFile is the size of the largest file that is read into memory before its answer
	// begins: a multiple of a chunk. The answer for a larger file is sent while the file is
	// read, and a read error in the middle of it ends the connection.
	wholeFile = 85 * reply.Chunk

	// cacheDirectories and cacheEntries bound the walk of the plugin cache:
	// twenty versions of each of the 512 plugins that an answer may contain.
	cacheDirectories = 10_000
	cacheEntries     = 20_000

	// helperEnd is how long a helper may run after the end of its input. Then it is killed.
	helperEnd = 5 * time.Second
)
