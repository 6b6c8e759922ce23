package execserver

import "time"

// Defaults of Options; each has a flag in cmd/codex.
const (
	// DefaultSessionTTL is how long a session outlives its connection. Codex CLI
	// tries to reconnect for 45 s.
	DefaultSessionTTL = 60 * time.Second
	// DefaultMaxConnections bounds the memory that clients can take with idle
	// connections: less than 60 KiB each.
	DefaultMaxConnections = 1024
	// DefaultMaxProcesses bounds the processes of one session that have not
	// closed yet; each costs up to MaxRetained and a few descriptors.
	DefaultMaxProcesses = 1024
	// DefaultMaxHandles bounds the open file handles of a connection. The bound of
	// Codex CLI is 128.
	DefaultMaxHandles = 128
	// DefaultConcurrentRequests is how many requests of a connection are in
	// work at a time, not counting those that only wait.
	DefaultConcurrentRequests = 64

	// DefaultRetainBytes bounds the disk space for the output of all detached processes.
	// DefaultRetain is the bound for one whose start does not specify it.
	DefaultRetainBytes = 8 << 30
	DefaultRetain      = 64 << 20
	// DefaultRetainFor is how long the output of a detached process is retained after its
	// end: long enough for a user who leaves in the evening and comes back on another
	// day.
	DefaultRetainFor = 72 * time.Hour
	// DefaultMaxDetached bounds the detached processes of one owner; the keeper of a running
	// one takes 20 MB, with its watchdog.
	DefaultMaxDetached = 64
)

const (
	// maxLimitTime is the longest time limit of a process; larger values are
	// reduced to it. It is far below the overflow.
	maxLimitTime = 365 * 24 * time.Hour

	// maxWaiting bounds the connections that are not authenticated yet, each of
	// which ends within seconds. They may use at most 1/waitingShare of the
	// process's descriptors, which leaves enough for clients and commands.
	maxWaiting   = 256
	waitingShare = 4

	// grantInterval is how often the tokens of connections and sessions are examined: so long at most a
	// token is good that was revoked or has expired. docs/operations.md promises 5 s.
	grantInterval = 2 * time.Second

	// queueBytes bounds the output that is queued for one connection beyond
	// what the kernel holds. While a connection is full, its processes are not
	// read.
	queueBytes = 1 << 20
	// keepBuffer is the largest output buffer that an idle connection keeps.
	keepBuffer = 4 << 10

	// backlogRequests and backlogBytes bound the requests that were read and
	// wait for a free slot; beyond them the connection is not read. Without a
	// backlog, the server would not see a request of the control lane behind
	// them.
	backlogRequests = 128
	backlogBytes    = 64 << 20

	// waitingRequests and waitingBytes bound the requests that only wait: long
	// polls, writes to a full pipe, HTTP requests. They take no slot. If a
	// client has more of them in flight, its connection is not read until one
	// ends; if none ends for stuckTime, the next is refused.
	waitingRequests = 4096
	waitingBytes    = 64 << 20
	stuckTime       = 2 * time.Second

	// answerMemory bounds what answers that are not sent yet and messages that have not come whole hold of the server's memory:
	// four messages of the usual largest size. With larger messages it is four of those.
	answerMemory = 256 << 20
	// memoryTime is how long a message waits for memory at most: less than pingInterval allows a connection to be silent, and
	// two that wait for each other are ended by it.
	memoryTime = 30 * time.Second

	// controlRequests bounds the control lane's requests in flight.
	controlRequests = 1024

	// pingInterval is how often a websocket is pinged. Two and a half intervals
	// without any sign of life end it (docs/spec/wire.md §1.6).
	pingInterval = 30 * time.Second

	// flushTime bounds how long an ending connection waits for answers that
	// are in work or queued.
	flushTime = 5 * time.Second
	// waitTime is the part of it for requests that only wait.
	waitTime = time.Second

	// finalReadTime is how long the end of a session waits for its client to
	// read how the processes ended.
	finalReadTime = time.Second

	// closedReadable is how long a closed process can still be read
	// (docs/spec/wire.md §4.4).
	closedReadable = 30 * time.Second
	// closedRetained bounds the output that the closed processes of one
	// session retain together; the oldest are forgotten first.
	closedRetained = 64 << 20
	// keptArgv bounds the bytes of the arguments of each of them.
	keptArgv = 4 << 10
	// closedEntries bounds their number.
	closedEntries = 16384

	// bufferedHTTP bounds the HTTP bodies that one connection buffers at a
	// time.
	bufferedHTTP = 256 << 20
	// httpDelta is the most data of one http/request/bodyDelta.
	httpDelta = 64 << 10

	// maxDeltaWindow bounds how many deltas of a stream may be unacknowledged.
	maxDeltaWindow = 4096

	// maxProcessID bounds processId, which is kept and repeated in every
	// notification.
	maxProcessID = 4 << 10

	// maxAskingID bounds processId of a process about whose hosts the client is
	// asked, as Codex CLI does.
	maxAskingID = 256
	// maxQuestions bounds the unanswered requests to one client, as Codex CLI
	// does.
	maxQuestions = 256

	// maxSnapshotScope bounds the scope of a shell's snapshot, and maxSnapshots the
	// snapshots of a session, as with Codex CLI: 16 states of 960 KiB.
	maxSnapshotScope = 256
	maxSnapshots     = 16
	// snapshotTime is how long start-up files may take. After snapshotTries
	// failed attempts, with pauses of snapshotPause, the state of a shell is not
	// requested again.
	snapshotTime  = 10 * time.Second
	snapshotTries = 3
	snapshotPause = time.Second

	// maxDenials bounds the denials of a process that are told apart: a program that
	// tries names at random would fill the notification of its exit.
	maxDenials = 64

	// maxListed bounds the processes of a process/list about several sessions: with
	// statuspage.MaxCommand, an answer of about 500 KiB.
	maxListed = 1000

	// releaseAbove is the size in bytes of a message or file after which memory
	// is returned to the operating system, releaseDelay after the last such one.
	releaseAbove = 8 << 20
	releaseDelay = 2 * time.Second
)
