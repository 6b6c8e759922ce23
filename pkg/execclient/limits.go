package execclient

import "time"

const (
	// DefaultClientName is what a bare client calls itself.
	DefaultClientName = "codex-core"
	// DefaultConnectTimeout bounds the dial with its HTTP upgrade.
	DefaultConnectTimeout = 10 * time.Second
	// DefaultInitializeTimeout bounds initialize and initialized together.
	DefaultInitializeTimeout = 10 * time.Second
	// DefaultRecoveryTimeout is how long a lost session is tried to be
	// resumed: inside the 30 s that every server keeps it.
	DefaultRecoveryTimeout = 25 * time.Second
)

const (
	// retryPause is the time between attempts to resume a session; the first
	// is made at once.
	retryPause = 100 * time.Millisecond
	// calmTime is how long a connection must have lasted for the next attempt
	// to be made at once: a server that breaks each connection is not hammered.
	calmTime = time.Second

	// startingTime bounds the wait for a process whose start was sent twice and
	// which the server says is starting: that takes milliseconds.
	startingTime = 5 * time.Second

	// sendQueue is how many messages may wait to be sent on a connection;
	// callers wait for room.
	sendQueue = 128

	// maxPolicyRequests bounds the network/policyRequests of a connection without an
	// answer, each of which has a goroutine: servers send at most 256.
	maxPolicyRequests = 256

	// maxEvents and maxEventBytes bound the events of a process that are kept
	// for who comes late or is slow; older ones are asked for again.
	maxEvents     = 256
	maxEventBytes = 1 << 20
	// maxPending bounds the events of a process that came ahead of others. No
	// server is that far out of order: an event was lost, and recovery gets it.
	maxPending = 4096
	// maxPendingBytes bounds their output. The reader cannot wait here: the event
	// that is missing comes, if at all, on the same connection behind them. It is
	// far more than a server has on its way at a time, and little for this machine.
	maxPendingBytes = 16 << 20

	// outputWindow is how much output of a process a server with flow control
	// may be ahead of its consumers. It is less than maxEventBytes, so that
	// little is asked for again.
	outputWindow = 512 << 10
	// ackEvery is after how much consumed output the server is told.
	ackEvery = outputWindow / 4
	// ackAll acknowledges whatever will come: the largest number that every
	// JSON reader keeps exactly.
	ackAll = 1<<53 - 1

	// stallTime is how long the connection to a server without flow control is
	// held up for a consumer that takes nothing. It is longer than a write to
	// a file takes, also where others need the processor, and short for who else
	// waits. It passes in stallSteps: when the whole machine has stood still,
	// that counts as one.
	stallTime  = time.Second
	stallSteps = 5

	// refetchBytes is how much retained output is asked for at a time.
	refetchBytes = 256 << 10

	// maxWatchEvents is how many events of a watch wait for its consumer. One more makes
	// of all of them an overflow: who is so far behind has to look at everything anyway.
	maxWatchEvents = 16384

	// followWait is how long one request waits for output of a detached process.
	followWait = 30 * time.Second

	// blockSize is the size of streamed reads and writes, and blocksInFlight
	// how many of them are under way at a time.
	blockSize      = 1 << 20
	blocksInFlight = 4

	// stdinChunk is the size of a write to a process's stdin.
	stdinChunk = 64 << 10

	// maxMessage bounds an incoming message: a file of 512 MiB in base64.
	maxMessage = 768 << 20

	// keepBuffer is the largest message that is copied out of the buffer of
	// its connection, which is kept for the next: every event is smaller. The
	// buffer of a larger one is handed over.
	keepBuffer = 256 << 10

	// maxBanner bounds the lines before the first message of a server that was started as
	// a command, in bytes: what follows is taken for messages.
	maxBanner = 64 << 10

	// childGrace is how long a server that was started as a command may take
	// to end after its stdin has ended.
	childGrace = 2 * time.Second
)

// Limits of Cmd.
const (
	// killTime bounds the request to kill a command whose context has ended, together with
	// the wait for the news of its end.
	killTime = 10 * time.Second
	// clipBytes is how much ExitError.Stderr has of the beginning and of the
	// end of standard error, as in os/exec.
	clipBytes = 32 << 10
)

// Limits of HTTP.
const (
	// maxDeltas is how many deltas of a streamed body wait for a reader that
	// is slow, and maxDeltaBytes how many bytes of it do if the deltas are
	// small: as much as maxDeltas of the largest that servers send. One delta
	// beyond both ends the stream.
	maxDeltas     = 256
	maxDeltaBytes = maxDeltas * (64 << 10)
	// mergeDelta is the size below which a delta that waits takes in the next one:
	// what waits is bounded in bytes only if small ones do not take a place each.
	mergeDelta = 16 << 10
	// deltaWindow is how many deltas a server that takes acknowledgements may
	// be ahead of the reader, and deltaAckEvery how many are acknowledged at once.
	deltaWindow   = 128
	deltaAckEvery = deltaWindow / 4
	// deadlineGrace is how much later than its context the server ends a
	// request, so that the error is that of the context.
	deadlineGrace = time.Second
	// MaxRequestBody is the largest body of a request in bytes: in base64 and
	// with its envelope it fits the 64 MiB that Codex CLI's servers take
	// as one message.
	MaxRequestBody = 47 << 20

	// maxAccepted bounds the connections to a port on the server that wait to be
	// accepted here; further ones are refused.
	maxAccepted = 1024
	// lingerTime is how long Close waits until tunnels that were closed have sent all
	// that was written.
	lingerTime = 5 * time.Second

	// socketBuffer is that of what is read from a websocket: most messages are
	// smaller, and output comes in chunks of about that size.
	socketBuffer = 32 << 10
)
