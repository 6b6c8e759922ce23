package confine

import "time"

const (
	// maxStartCalls bounds the starts that plan their sandboxes at a time, whose system calls about files may hang: see MaxFileCalls of
	// pkg/execserver/files.
	maxStartCalls = 32

	// maxIdleLaunchers bounds the launchers that wait for a request: one for the
	// next request, and one for what often comes with it. Each holds 3 MB.
	maxIdleLaunchers = 2
	// refillDelay is how long after a request the next launcher is started. Its start
	// takes a core for 2 ms. On two cores, one that was started at once held up the answer
	// to the request: after 3.3 ms in place of 1.2. A sandboxed process takes 6 to 10 ms
	// from its request to its end.
	refillDelay = 20 * time.Millisecond
)
