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
	// DefaultMaxProcesses bounds the processes of one session that have not closed yet. Each
	// takes up to MaxRetained bytes and a few descriptors.
	DefaultMaxProcesses = 1024
	// DefaultMaxHandles bounds the open file handles of a connection, and the atomic writes of a
	// session. Codex CLI's limit is 128 for a connection, and it has no atomic writes.
	DefaultMaxHandles = 128
	// DefaultConcurrentRequests is how many requests of a connection run at a time, without
	// those that only wait.
	DefaultConcurrentRequests = 64

	// DefaultRetainBytes bounds the disk space for the output of all detached processes.
	// DefaultRetain bounds the output of a process whose start sets no bound.
	DefaultRetainBytes = 8 << 30
	DefaultRetain      = 64 << 20
	// DefaultRetainFor is how long the output of a detached process is retained after its
	// end: long enough for a user who leaves in the evening and comes back on another
	// day.
	DefaultRetainFor = 72 * time.Hour
	// DefaultMaxDetached bounds the detached processes of one owner. The keeper of a running
	// process takes 20 MB, with its watchdog.
	DefaultMaxDetached = 64
)

const (
	// maxLimitTime is the longest time limit of a process; a larger value is reduced to it. It
	// is far too small to overflow a time.Duration.
	maxLimitTime = 365 * 24 * time.Hour

	// fullSessions is how many sessions may have MaxProcesses processes at the same time, so
	// that a client with many sessions leaves processes to the others.
	fullSessions = 4

	// maxWaiting bounds the connections that are not authenticated yet, each of which ends
	// within seconds. They may use at most 1/waitingShare of the process's descriptors, so that
	// enough are left for clients and commands.
	maxWaiting   = 256
	waitingShare = 4

	// grantInterval is how often the server checks the tokens of connections and sessions. A
	// token that was revoked or has expired remains valid for at most that long.
	// docs/operations.md promises 5 s.
	grantInterval = 2 * time.Second

	// queueBytes bounds the queued output of one connection, without the data in the kernel's
	// buffer. While the queue is full, the output of the connection's processes is not read.
	queueBytes = 1 << 20
	// keepBuffer is the largest output buffer that an idle connection keeps.
	keepBuffer = 4 << 10

	// backlogRequests and backlogBytes bound the requests that were read and wait for a free
	// slot. While the backlog is full, the connection is not read. Without a backlog, the
	// server would not see a request of the control lane behind the waiting requests.
	backlogRequests = 128
	backlogBytes    = 64 << 20

	// quickTime is how long a request keeps the next ones of its connection, and those of other
	// connections, from running: much longer than a system call that finds its data in memory,
	// and less than a person or a program notices.
	quickTime = time.Millisecond

	// waitingRequests and waitingBytes bound the requests that only wait: long polls, writes to
	// a full pipe, HTTP requests. They take no slot. If a client has more of them in flight,
	// its connection is not read until one of them ends. If none of them ends for stuckTime,
	// the next one is refused.
	waitingRequests = 4096
	waitingBytes    = 64 << 20
	stuckTime       = 2 * time.Second

	// answerMemory bounds the memory for unsent answers and incomplete messages. It is enough
	// for four messages of the default largest size. If larger messages are configured, the
	// bound is four messages of that size.
	answerMemory = 256 << 20
	// messageMargin is by how much the buffer of the largest message is larger than a quarter
	// of the memory. The buffer grows in steps.
	messageMargin = 128 << 10
	// memoryTime is the longest time that a message waits for memory. It is shorter than the
	// silence that pingInterval permits. It also ends a deadlock of two messages that wait for
	// each other's memory.
	memoryTime = 30 * time.Second

	// controlRequests bounds the requests of the control lane that run at a time.
	controlRequests = 1024

	// pingInterval is how often a websocket is pinged. Two and a half intervals
	// without any sign of life end it (docs/spec/wire.md §1.6).
	pingInterval = 30 * time.Second

	// flushTime bounds how long an ending connection waits for answers that
	// are in work or queued.
	flushTime = 5 * time.Second
	// waitTime is the part of flushTime that requests have which only wait.
	waitTime = time.Second

	// finalReadTime is how long the end of a session waits until its client has read how the
	// processes ended.
	finalReadTime = time.Second

	// closedReadable is how long the output of a closed process can still be read
	// (docs/spec/wire.md §4.4).
	closedReadable = 30 * time.Second
	// closedRetained bounds the total retained output of the closed processes of one session.
	// If there is more, the oldest processes are forgotten.
	closedRetained = 64 << 20
	// keptArgv bounds the retained arguments of each closed process, in bytes.
	keptArgv = 4 << 10
	// closedEntries bounds the number of closed processes.
	closedEntries = 16384

	// bufferedHTTP bounds the HTTP bodies that one connection buffers at a
	// time, and the memory of the decoders of its compressed ones, of which each takes up to 10 MiB.
	bufferedHTTP = 256 << 20
	// httpDelta is the most data of one http/request/bodyDelta.
	httpDelta = 64 << 10

	// maxDeltaWindow bounds how many deltas of a stream may be unacknowledged.
	maxDeltaWindow = 4096

	// maxProcessID bounds processId, which is retained and is part of every notification.
	maxProcessID = 4 << 10

	// maxAskingID bounds the processId of a process about whose hosts the server asks the
	// client, as in Codex CLI.
	maxAskingID = 256
	// maxQuestions bounds the unanswered requests to one client, as in Codex CLI.
	maxQuestions = 256

	// maxSnapshotScope bounds the scope of a shell's snapshot, and maxSnapshots bounds the
	// snapshots of a session, as in Codex CLI: 16 states of 960 KiB.
	maxSnapshotScope = 256
	maxSnapshots     = 16
	// snapshotTime is how long start-up files may take. After snapshotTries
	// failed attempts, with pauses of snapshotPause, the state of a shell is not
	// requested again.
	snapshotTime  = 10 * time.Second
	snapshotTries = 3
	snapshotPause = time.Second

	// maxDenials bounds the separate denials of a process: a program that tries random names
	// would otherwise fill the notification of its exit.
	maxDenials = 64

	// maxListed bounds the processes in the answer to a process/list about several sessions.
	// With statuspage.MaxCommand, the answer has about 500 KiB.
	maxListed = 1000

	// releaseAbove is the size, in bytes, above which a message or a file counts as large.
	// After releaseDelay without another large one, the server returns memory to the operating
	// system.
	releaseAbove = 8 << 20
	releaseDelay = 2 * time.Second
)
