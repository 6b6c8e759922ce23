package confine

import "time"

const (
	// maxStartCalls bounds the concurrent starts that plan their sandboxes. Their system calls
	// on files may hang: see MaxFileCalls of pkg/execserver/files.
	maxStartCalls = 32

	// maxIdleLaunchers bounds the idle launchers: one for the next request, and one for the
	// request that often follows it. Each takes 3 MB.
	maxIdleLaunchers = 2
	// refillDelay is how long after a request the next launcher is started. Its start takes a
	// core for 2 ms. On two cores, starting it immediately delayed the answer to the request
	// from 1.2 ms to 3.3 ms. A sandboxed process takes 6 to 10 ms from its request to its end.
	refillDelay = 20 * time.Millisecond
)
