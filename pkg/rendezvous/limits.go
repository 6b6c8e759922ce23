package rendezvous

import (
	"time"

	"codex.internal/pkg/relay"
	"codex.internal/pkg/relay/frame"
)

// These are limits of the service as a whole.
const (
	// maxSockets bounds the sockets of all token holders. An idle socket takes about 30 KiB.
	maxSockets = 8192
	// MaxEnvironments bounds the registrations. Each takes about 2 KiB in memory and in the stored
	// state.
	MaxEnvironments = 4096
	// maxSpent bounds the authorizations that are remembered until they
	// expire, so that none is accepted twice.
	maxSpent = 1 << 16
)

// These limits of a token keep its holder from taking resources that others need.
const (
	// TokenEnvironments is how many environments the executors of a token may register.
	TokenEnvironments = 256
	tokenSockets      = 512
	tokenStreams      = 1024
	// tokenBytes is how many bytes a token's harnesses may have in flight to executors, including
	// frameBytes: half of an environment's limit.
	tokenBytes = environmentBytes / 2
	// tokenFrames is how many frames per second a token's harnesses may send, and tokenFrameBurst
	// how many at once. Beyond that the service stops reading from them. With frames of full size,
	// a harness reaches the speed of a disk long before this limit.
	tokenFrames     = 10_000
	tokenFrameBurst = 2_000
	// tokenCalls and tokenCallBurst limit the calls of the API. An executor may have 32 validations
	// at the same time.
	tokenCalls     = 50
	tokenCallBurst = 100
)

// Limits of an environment.
const (
	environmentHarnesses = 256
	// environmentStreams is how many streams an executor serves. So a token's share of it is never
	// all that an executor has.
	environmentStreams = 128
	// environmentOpening bounds the handshakes that the executor has not answered. A token's share
	// of them equals the number of concurrent requests of an executor to the registry, which are
	// answered in milliseconds.
	environmentOpening = 64
	// environmentBytes is the limit of the bytes in flight in each direction.
	environmentBytes = 32 << 20
	// environmentFrames and environmentFrameBurst apply to each direction.
	environmentFrames     = 20_000
	environmentFrameBurst = 4_000
	// environmentChecks and environmentCheckBurst limit the calls by which the executor validates
	// harnesses. These calls are not charged to the executor's token, because otherwise the
	// harnesses of one environment could use up the calls for another environment of that token.
	environmentChecks     = 50
	environmentCheckBurst = 200
)

// These limit how much of one environment one token may use. A token gets no more sockets, streams
// and unanswered handshakes than it leaves free: the first token gets half, the next a quarter and
// so on. So no token can use all of them.
const (
	// shareOpens is how many handshakes per second a token's harnesses may begin with an executor,
	// and shareOpenBurst how many at once. For each handshake the executor decrypts a message and
	// makes a request to the registry.
	shareOpens     = 20
	shareOpenBurst = environmentStreams
	// shareFailures is how many of these handshakes per second may fail, and shareFailureBurst how
	// many at once. Beyond that the token's handshakes are refused for a while.
	shareFailures     = 1
	shareFailureBurst = 16
	// harnessFailures is how many handshakes may fail on one connection of a harness before it is
	// closed. Executors of Codex CLI close their own connection, which all clients use, after eight
	// failures.
	harnessFailures = 4
	// maxAbandoned bounds how many handshakes whose harnesses have not waited for the answer are
	// remembered for one executor's connection.
	maxAbandoned = 1024
	// shareDown is how many bytes of the executor's output may wait for a token's harnesses,
	// including frameBytes: a quarter of environmentBytes.
	shareDown = environmentBytes / 4
	// shareStalls is the time, in milliseconds of each second, for which a
	// token's harnesses may delay the executor's output if harnesses of other
	// tokens wait for it too. shareStallBurst is the time for which they may do
	// so at once. A harness that exceeds it is disconnected.
	shareStalls     = 200
	shareStallBurst = 5_000
	// stallSlice is how long the output waits between two checks of this limit.
	stallSlice = 250 * time.Millisecond
	// resumeClaimTime is how long a stream may be claimed by a resume that the executor has not
	// answered. A harness waits for 5 s. handshakeClaimTime is the same for a handshake, for which
	// the executor has 10 s to ask the registry.
	resumeClaimTime    = 6 * time.Second
	handshakeClaimTime = 15 * time.Second
)

// Limits of a socket.
const (
	// MaxFrame is the longest frame, in bytes, that both ends accept.
	MaxFrame = frame.MaxFrame
	// frameBytes is approximately the memory that a frame in flight takes in addition to its bytes.
	// Without it, small frames could take 50 times as much memory as the limits permit.
	frameBytes = 256
	// SourceBytes is how many bytes of one harness may wait for its executor, or of an executor for
	// one harness. It is about the window of one stream whose records are acknowledged. Beyond that
	// the service stops reading from the sender.
	SourceBytes = 1 << 20
	// SourceReplies bounds the relay's own resets that wait for a harness. They are sent regardless
	// of SourceBytes. Further resets are dropped, because a harness that sends so many frames does
	// not read the answers.
	SourceReplies = 256 // fullFrame is the size of a frame with a full record.
	fullFrame     = 64 << 10

	// DefaultPingInterval is how often a peer is pinged. Codex CLI's executors use the same
	// interval.
	DefaultPingInterval = 30 * time.Second
	// DefaultWriteTimeout is how long a peer may take to accept one frame.
	DefaultWriteTimeout = 20 * time.Second
	// DefaultResumeTime is how long the two ends of a stream keep the state for resuming it.
	DefaultResumeTime = 30 * time.Second
	// closeTime bounds how long API calls are still answered during shutdown.
	closeTime = 2 * time.Second
)

// Limits of the API.
const (
	// maxBody bounds the body of a request: two keys in base64 and an
	// authorization need 6 KiB.
	maxBody = 64 << 10
	// maxHeader bounds the head of a request: a signed URL and a token.
	maxHeader = 32 << 10
	// answerTime bounds creating and sending an answer, which may include a request to NATS.
	// leftTime bounds how long the rest of a body may take to arrive after the answer.
	// websocket.NewHTTPServer bounds the rest.
	answerTime = 20 * time.Second
	leftTime   = time.Second
	// maxWaiting bounds the connections of a listener that are not websockets. Each takes one
	// descriptor, so enough remain for maxSockets and for files.
	maxWaiting = 1024
	// maxRegistrationID is the longest registration id that is looked up or logged, in bytes. All
	// ids have the length of a UUID.
	maxRegistrationID = 36
	// maxEnvironmentID is the longest id of an environment, in bytes.
	maxEnvironmentID = 256
)

// These are the lifetimes of signed values.
const (
	// ExecutorURLTime is long because an executor dials its URL repeatedly, and its streams are
	// kept only as long as its registration.
	ExecutorURLTime = 24 * time.Hour
	// harnessURLTime is short because a harness dials its URL once, right after the answer.
	harnessURLTime = 2 * time.Minute
	// authorizationTime is how long an executor may take to have an authorization validated after
	// the answer to the harness.
	authorizationTime = 2 * time.Minute
	// stateTime bounds operations that wait for the shared state. Clients give up a call after 10
	// s.
	stateTime = 5 * time.Second
	// checkInterval is how often the token of each websocket is looked up: it bounds how long a revoked token keeps its
	// connections. The file of tokens is read again only when it has changed.
	checkInterval = 5 * time.Second
	// sweepInterval is how often expired entries are removed.
	sweepInterval = time.Minute
	// A node asks executors to reconnect (see balancer) if it has more than the mean of all nodes,
	// by balanceSurplus percent and by balanceSpare executors. A smaller difference is not worth
	// the interruption, of about 2 s for a stream that is in use. The node waits for balanceDelay,
	// so that a rolling restart is over. Then it asks one executor each balanceInterval, and none
	// twice within balanceAgain.
	balanceSurplus  = 10
	balanceSpare    = 16
	balanceDelay    = time.Minute
	balanceInterval = 2 * time.Second
	balanceAgain    = time.Hour
	// meterWindow is the time over which throughput is averaged.
	meterWindow = 10 * time.Second
)

// Limits of the status page.
const (
	// maxAgent is the longest program name that is stored, in bytes.
	maxAgent = relay.MaxDescribedAgent + len("…")
	// statusClients bounds how many programs the page names for the clients of an environment.
	// Clients of other programs are only counted.
	statusClients = 8
	// surveyAge is how old the answers of the other nodes may be: each page that is open in a
	// browser is fetched every 2 s. surveyTime is how long a page waits for the answers.
	surveyAge  = time.Second
	surveyTime = time.Second
	// surveyBytes is the approximate size of one answer. NATS must accept an answer of this size.
	surveyBytes = MaxFrame / 2
	// surveyEnvironments bounds the environments in one node's answers: the registered ones, and
	// the same number of former ones whose accounts were not removed yet.
	surveyEnvironments = 2 * MaxEnvironments
)

// Limits of files.
const (
	maxStateFile = 64 << 20
	maxPatterns  = 256
	// lockTime bounds the wait for another node that has the state's file.
	lockTime = 5 * time.Second
)
