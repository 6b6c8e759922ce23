package execserver

import (
	"runtime"
	"runtime/debug"
	"time"
)

// newMemoryTimer returns the timer of Server.memory, which does not run yet.
func newMemoryTimer() *time.Timer {
	t := time.AfterFunc(releaseDelay, releaseMemory)
	t.Stop()
	return t
}

// movesBytes must be called with the size of each message and file that the server moves. A large one starts the timer
// anew.
func (srv *Server) movesBytes(size int64) {
	if size >= releaseAbove {
		srv.memory.Reset(releaseDelay)
	}
}

// releaseMemory returns the memory of large buffers to the operating system. After three files of 48 MiB and three of
// 32 MiB a server has 131 MiB, and 24 MiB three seconds later. Without this function it still has 131 MiB after 200
// seconds. Buffers in pools outlive one collection: 40 listings of 100,000 names leave 54 MiB of them.
func releaseMemory() {
	runtime.GC()
	debug.FreeOSMemory()
}
