package execserver

import (
	"runtime"
	"runtime/debug"
	"time"
)

// newMemoryTimer returns the timer for Server.memory. It does not run yet.
func newMemoryTimer() *time.Timer {
	t := time.AfterFunc(releaseDelay, releaseMemory)
	t.Stop()
	return t
}

// movesBytes must be called with the size of each message and file that the server sends or
// receives. A large one restarts the timer.
func (srv *Server) movesBytes(size int64) {
	if size >= releaseAbove {
		srv.memory.Reset(releaseDelay)
	}
}

// releaseMemory returns the memory of large buffers to the operating system. After three files
// of 48 MiB and three of 32 MiB a server has 131 MiB, and 24 MiB three seconds later. Without
// this function it still has 131 MiB after 200 seconds. Buffers in a sync.Pool survive one
// garbage collection: after 40 listings of 100,000 names, they take 54 MiB.
func releaseMemory() {
	runtime.GC()
	debug.FreeOSMemory()
}
