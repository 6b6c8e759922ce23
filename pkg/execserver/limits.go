//go:build linux || darwin

package execserver

import "time"

// Defaults of Options; each has a flag in cmd/codex.
const (
	// DefaultSessionTTL is how long a session outlives its connection. The
	// newest reference client tries to come back for 45 s.
	DefaultSessionTTL = 60 * time.Second
	// DefaultMaxConnections bounds what strangers on the port can hold: an
	// idle connection costs less than 60 KiB.
	DefaultMaxConnections = 1024
	// DefaultMaxProcesses bounds the processes of one session that have not
	// closed yet; each costs up to MaxRetained and a few descriptors.
	DefaultMaxProcesses = 1024
	// DefaultMaxHandles is the reference's bound on open file handles per
	// connection.
	DefaultMaxHandles = 128
	// DefaultConcurrentRequests is how many requests of a connection are in
	// work at a time, not counting those that only wait.
	DefaultConcurrentRequests = 128
)

const (
	// maxWaiting bounds the connections on which nobody was let in yet, each
	// of which ends within seconds; waitingShare is which part of the process's
	// descriptors they may take at most: one in four leaves what clients and
	// their commands need.
	maxWaiting   = 256
	waitingShare = 4

	// queueBytes bounds the output that is queued for one connection beyond
	// what the kernel holds. A process whose connection is full is not read
	// any more.
	queueBytes = 1 << 20
	// keepBuffer is the largest output buffer that an idle connection keeps.
	keepBuffer = 4 << 10

	// backlogRequests and backlogBytes bound the requests that were read but
	// wait for a free slot; past them the connection is not read. There is a
	// backlog at all so that a request of the control lane behind them is
	// seen.
	backlogRequests = 128
	backlogBytes    = 64 << 20

	// waitingRequests and waitingBytes bound the requests that only wait:
	// long polls, writes to a full pipe, HTTP requests. They take no slot. A
	// client that has more of them in flight is not read until one ends, and
	// when none ends for stuckTime the next is refused.
	waitingRequests = 4096
	waitingBytes    = 64 << 20
	stuckTime       = 2 * time.Second

	// controlRequests bounds the control lane's requests in flight.
	controlRequests = 1024

	// pingInterval is how often a connection is probed, and missedPings how
	// many intervals without any sign of life end it (section 1).
	pingInterval = 30 * time.Second
	missedPings  = 2

	// flushTime bounds how long an ending connection waits for answers that
	// are in work or queued.
	flushTime = 5 * time.Second
	// waitTime is the part of it that requests get which only wait.
	waitTime = time.Second

	// farewellTime bounds how long the end of a session waits for its client
	// to read how the processes ended.
	farewellTime = time.Second

	// closedReadable is how long a closed process can still be read
	// (section 4).
	closedReadable = 30 * time.Second
	// closedRetained bounds the output that the closed processes of one
	// session retain together; the oldest are forgotten first.
	closedRetained = 64 << 20
	// closedEntries bounds their number.
	closedEntries = 16384

	// maxWait bounds waitMs, so that it fits a duration.
	maxWait = 24 * time.Hour

	// fileChunk is how much of a file is encoded at a time: a multiple of
	// three, so that the base64 texts of the chunks join up.
	fileChunk = 768 << 10
	// wholeFile is the largest file that is read into memory before its
	// answer begins, in whole chunks. The answer to a larger one is sent as
	// it is read, and a read error in the middle of it ends the connection.
	wholeFile = 85 * fileChunk

	// inlineBody is the largest data that is encoded into the connection's
	// queue; larger data is sent in parts.
	inlineBody = 256 << 10

	// bufferedHTTP bounds the HTTP bodies that one connection buffers at a
	// time.
	bufferedHTTP = 256 << 20
	// httpDelta is the most data of one http/request/bodyDelta.
	httpDelta = 64 << 10

	// maxDeltaWindow bounds how many of them a client may let wait to be
	// acknowledged: with more there is nothing that is held back.
	maxDeltaWindow = 4096

	// maxProcessID bounds processId, which is kept and repeated in every
	// notification.
	maxProcessID = 4 << 10

	// warmTime is how long a confined helper waits for a request, and how
	// recently a policy must have been used for one to be started.
	warmTime = 3 * time.Second
	// warmIdle bounds the helpers that wait: each holds a few megabytes.
	warmIdle = 4
	// warmPolicies bounds the policies that are remembered for it.
	warmPolicies = 256

	// helperEnd is what a confined helper gets to end in order after its
	// input has ended.
	helperEnd = 5 * time.Second

	// releaseAbove is the size of a message or file after which memory is
	// handed back to the system when the server is idle.
	releaseAbove = 8 << 20
	releaseDelay = 2 * time.Second
)
