package execclient

import "time"

const (
	// DefaultClientName is the client name without Options.ClientName.
	DefaultClientName = "codex-core"
	// DefaultConnectTimeout bounds the dial with its HTTP upgrade.
	DefaultConnectTimeout = 10 * time.Second
	// DefaultInitializeTimeout bounds initialize and initialized together.
	DefaultInitializeTimeout = 10 * time.Second
	// DefaultRecoveryTimeout bounds the attempts to resume a lost session. Every server keeps
	// it for 30 s.
	DefaultRecoveryTimeout = 25 * time.Second
)

const (
	// retryPause is the time between attempts to resume a session. The first attempt is
	// made at once.
	retryPause = 100 * time.Millisecond
	// calmTime is how long a connection must last so that, after its loss, the next attempt
	// is made at once. Without it, a server that closes each connection would be flooded.
	calmTime = time.Second

	// startingTime bounds the wait for a process whose start was sent twice and which the
	// server reports as starting. That takes milliseconds.
	startingTime = 5 * time.Second

	// sendQueue is how many messages may wait to be sent on a connection; then callers wait.
	sendQueue = 128

	// maxPolicyRequests bounds the unanswered network/policyRequests of a connection, each of
	// which has a goroutine. Servers send at most 256.
	maxPolicyRequests = 256

	// maxEvents and maxEventBytes bound the events of a process that are kept for slow or late
	// consumers. Older ones are requested again.
	maxEvents     = 256
	maxEventBytes = 1 << 20
	// maxPending bounds the events of a process that arrived before earlier ones. No server
	// sends events that much out of order. If the limit is reached, an event was lost, and
	// recovery requests it again.
	maxPending = 4096
	// maxPendingBytes bounds the output of events that wait for an earlier one. The reader
	// cannot wait here, because the missing event can only arrive after them on the same
	// connection. A server never has nearly as much in flight, and the memory is small.
	maxPendingBytes = 16 << 20

	// outputWindow is how far a server with flow control may send output ahead of the
	// acknowledgements. It is less than maxEventBytes, so that little is requested again.
	outputWindow = 512 << 10
	// ackEvery is the amount of consumed output after which an acknowledgement is sent.
	ackEvery = outputWindow / 4
	// ackAll acknowledges all later output, too: the largest number that every JSON reader
	// represents exactly.
	ackAll = 1<<53 - 1

	// stallTime is how long the connection to a server without flow control is blocked for a
	// consumer that takes nothing. It is longer than a write to a file takes on a busy
	// machine, and short enough for other users of the connection. It is measured in
	// stallSteps steps: if the whole machine was suspended, that time counts as one step.
	stallTime  = time.Second
	stallSteps = 5

	// refetchBytes is how much retained output one request asks for.
	refetchBytes = 256 << 10

	// maxWatchEvents is how many events of a watch wait for its consumer. If another event
	// arrives, an overflow replaces them all: a consumer that is so slow must examine the whole
	// tree anyway.
	maxWatchEvents = 16384

	// followWait is how long one request waits for output of a detached process.
	followWait = 30 * time.Second

	// blockSize is the size of streamed reads and writes, and blocksInFlight the number of
	// them in flight.
	blockSize      = 1 << 20
	blocksInFlight = 4
	// blockTries is how often a block of an upload is sent again after the loss of its
	// connection. A server that ends whenever it gets the block would otherwise get it without end.
	blockTries = 5

	// stdinChunk is the size of a write to a process's stdin.
	stdinChunk = 64 << 10

	// maxMessage bounds an incoming message: a file of 512 MiB in base64.
	maxMessage = 768 << 20
	// maxAnswer bounds the answers to all requests but those for whole files and HTTP bodies: a
	// decoded list takes many times the memory of its text. The limit has space for a million
	// names of usual length.
	maxAnswer = 128 << 20

	// keepBuffer is the largest message that is copied out of the buffer of its connection, so
	// that the buffer is used again: all events are smaller. For a larger message the buffer
	// itself is passed on.
	keepBuffer = 256 << 10

	// maxBanner bounds the lines before the first message of a server that is started as a
	// command, in bytes: later lines count as messages.
	maxBanner = 64 << 10

	// childGrace is how long a server that was started as a command may run after its stdin
	// has ended.
	childGrace = 2 * time.Second
)

// Limits of Cmd.
const (
	// killTime bounds the request to kill a command whose context has ended, together with the
	// wait for the report of its end.
	killTime = 10 * time.Second
	// clipBytes is the size of the beginning and of the end of standard error in
	// ExitError.Stderr, as in os/exec.
	clipBytes = 32 << 10
)

// Limits of HTTP.
const (
	// maxDeltas bounds the deltas of a streamed body that wait for a slow reader; if they
	// are small, maxDeltaBytes bounds their bytes instead. The latter is the size of
	// maxDeltas deltas of the largest size that servers send. Only a delta beyond both
	// bounds ends the stream.
	maxDeltas     = 256
	maxDeltaBytes = maxDeltas * (64 << 10)
	// mergeDelta is the size below which a waiting delta is merged with the next one, so that
	// small deltas do not fill the queue.
	mergeDelta = 16 << 10
	// deltaWindow is how many deltas a server with acknowledgements may be ahead of the
	// reader, and deltaAckEvery how many are acknowledged at once.
	deltaWindow   = 128
	deltaAckEvery = deltaWindow / 4
	// deadlineGrace is how much later than the context's deadline the server ends a request,
	// so that the caller gets the error of the context.
	deadlineGrace = time.Second
	// MaxRequestBody is the largest body of a request in bytes: in base64 and with its
	// envelope it fits into a message of 64 MiB, the limit of Codex CLI's servers.
	MaxRequestBody = 47 << 20

	// maxAccepted bounds the connections to a port on the server that wait for Accept. Further
	// ones are refused.
	maxAccepted = 1024
	// lingerTime bounds how long Close waits until closed tunnels have sent all written data.
	lingerTime = 5 * time.Second

	// socketBuffer is the size of the read buffer of a websocket: most messages are smaller,
	// and output arrives in chunks of about that size.
	socketBuffer = 32 << 10
)
