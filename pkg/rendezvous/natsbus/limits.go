package natsbus

import (
	"time"

	"codex.internal/pkg/rendezvous"
)

// Times within which the loss of something is noticed. Together with the second
// that a client pauses they keep an interruption under 5 s.
const (
	// beatInterval is how often a node sends a heartbeat. silence is how long
	// it may send nothing before it counts as lost: long enough for four lost
	// heartbeats, or for an equally long outage of NATS.
	beatInterval = 500 * time.Millisecond
	silence      = 2500 * time.Millisecond
	// probeTime is how long messages may be unconfirmed until their receiver
	// is asked, and lossTime until they are taken for lost.
	probeTime = time.Second
	lossTime  = 3 * time.Second
	// claimInterval is how often nodes repeat which addresses they have, and
	// check the other ends of their lines. Nodes that missed the first message,
	// because the NATS cluster was partitioned, learn it then.
	claimInterval = 30 * time.Second
)

// These limit the messages in flight between two nodes.
const (
	// lineBytes is how many bytes of frames may be in flight from one address
	// to another: as much as fits into the mailbox there, so that the receiving
	// node never waits.
	lineBytes = rendezvous.SourceBytes
	// lineReplies is the same for replies, in messages.
	lineReplies = rendezvous.SourceReplies
	// ackBytes is how much a receiver hands over before it acknowledges at once; a frame
	// of full size fits into the rest. Smaller amounts are acknowledged after ackDelay.
	ackBytes = lineBytes / 4
	ackDelay = 5 * time.Millisecond
	// acksPerPacket bounds a packet with acknowledgements to some 32 KiB.
	acksPerPacket = 1024
)

// Limits of the connection to NATS.
const (
	// packetOverhead is the most that a packet has in addition to a frame:
	// names, each at most 128 bytes, and numbers.
	packetOverhead = 4 << 10
	// maxAddress is the longest part of a subject that comes from outside, in
	// bytes; our own have half of that. NATS disconnects a client that sends a line
	// of more than 4 KiB, and the client library does not reconnect then.
	maxAddress = 128
	// inboxBytes and inboxPackets bound the packets that wait for the goroutine
	// that hands them over. It never blocks, so this much means that the
	// process is stopped. NATS disconnects a client with as many unread bytes
	// (max_pending).
	inboxBytes   = 64 << 20
	inboxPackets = 1 << 17
	// maxCalls bounds the requests that wait to be answered: a harness in two
	// of all that one node can have connects at the same moment. A node that
	// gets no answer repeats its request.
	maxCalls = 4096
	// reconnectBytes bounds the messages that are buffered while the connection
	// to NATS is down. A message that does not fit closes its line.
	reconnectBytes = 8 << 20
	// reconnectPause is the pause between two attempts. reconnectJitter is
	// added at random, so that nodes do not come back all at once.
	reconnectPause  = 250 * time.Millisecond
	reconnectJitter = 100 * time.Millisecond
	// dialTime bounds one attempt, writeTime one write, and pingInterval finds
	// a server that is silent after two of them.
	dialTime     = 2 * time.Second
	writeTime    = 3 * time.Second
	pingInterval = time.Second
	maxPings     = 2
	// startTime bounds how long the first connection may take: a cluster that
	// has just been started elects its leaders within it. openTime bounds one
	// attempt to open the state, because JetStream never answers some of what it
	// is asked while it changes its leader.
	startTime = 30 * time.Second
	openTime  = 5 * time.Second
	// callTime bounds a request to another node or to JetStream, answerTime one
	// attempt, and answerPause is before the next.
	callTime    = 3 * time.Second
	answerTime  = time.Second
	answerPause = 100 * time.Millisecond
	// interestTime is how long the servers of a cluster may take to learn of a
	// new subscription: some milliseconds, or more on a busy machine.
	// interestPause is the pause before the second request, and doubles with
	// each.
	interestTime  = 250 * time.Millisecond
	interestPause = 10 * time.Millisecond
	// closeTime bounds the last flush.
	closeTime = 2 * time.Second
)

// Limits of the state.
const (
	// registrationTime is how long a registration is kept if its executor's
	// node does not renew it, as it does each renewInterval. It is longer than
	// the registration's URL is valid.
	registrationTime = rendezvous.ExecutorURLTime + 2*renewInterval
	renewInterval    = time.Hour
	// maxRegistrations bounds the keys for registrations: two for each
	// environment, those of replaced registrations, and the markers of those
	// removed within markerTime.
	maxRegistrations = 1 << 18
	markerTime       = 10 * time.Minute
	// maxRecord is the longest value, in bytes: a registration has some 2 KiB.
	maxRecord = 16 << 10
	// casAttempts bounds how often a change is attempted if other changes overtake it.
	casAttempts = 8
	// defaultReplicas is how many servers of a cluster store the state: with
	// three, one may fail.
	defaultReplicas = 3
	// clockSkew is the greatest difference between the clocks of two nodes. A
	// nonce is remembered as used for that long after its expiry.
	clockSkew = time.Minute
	// maxFile bounds a file of credentials, or of the certificates of all the
	// authorities of a system.
	maxFile = 4 << 20
	// watchPause is the pause before the state is watched again after a failure.
	watchPause = time.Second
)
