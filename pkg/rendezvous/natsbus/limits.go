package natsbus

import (
	"time"

	"codex.internal/pkg/rendezvous"
)

// These limit how long a loss may remain undetected. Together with the second for which a client
// pauses, an interruption takes less than 5 s.
const (
	// beatInterval is how often a node sends a heartbeat. silence is how long a node may send
	// nothing before it counts as lost. It is long enough for four lost heartbeats, or for an
	// outage of NATS of the same length.
	beatInterval = 500 * time.Millisecond
	silence      = 2500 * time.Millisecond
	// probeTime is how long messages may be unacknowledged before their receiver is probed. After
	// lossTime they count as lost.
	probeTime = time.Second
	lossTime  = 3 * time.Second
	// claimInterval is how often nodes repeat which addresses they have, and check the other ends
	// of their lines. Nodes that missed the first claim, because the NATS cluster was partitioned,
	// get the repeated one.
	claimInterval = 30 * time.Second
)

// These limit the messages in flight between two nodes.
const (
	// lineBytes is how many bytes of frames may be in flight from one address to another. The
	// mailbox at the other end has space for that many, so that the receiving node never waits.
	lineBytes = rendezvous.SourceBytes
	// lineReplies is the limit of replies in flight, in messages.
	lineReplies = rendezvous.SourceReplies
	// ackBytes is how many bytes a receiver passes to its reader before it acknowledges at once; a
	// frame of full size fits into the rest. Smaller amounts are acknowledged after ackDelay.
	ackBytes = lineBytes / 4
	ackDelay = 5 * time.Millisecond
	// acksPerPacket bounds a packet with acknowledgements to about 32 KiB.
	acksPerPacket = 1024
)

// Limits of the connection to NATS.
const (
	// packetOverhead is the largest size of a packet in addition to its frame: names, each of at
	// most 128 bytes, and numbers.
	packetOverhead = 4 << 10
	// maxAddress is the longest part of a subject that comes from a client, in bytes. The node's
	// own parts are half as long. NATS disconnects a client that sends a line of more than 4 KiB,
	// and the client library does not reconnect then.
	maxAddress = 128
	// inboxBytes and inboxPackets bound the packets that wait for the goroutine that distributes
	// them. That goroutine never blocks, so the limit is reached only if the process is stopped.
	// NATS disconnects a client with the same number of unread bytes (max_pending).
	inboxBytes   = 64 << 20
	inboxPackets = 1 << 17
	// maxCalls bounds the requests that wait for an answer. It is enough if half of all the
	// harnesses that one node can have connect at the same moment. A node that gets no answer
	// repeats its request.
	maxCalls = 4096
	// reconnectBytes bounds the messages that are buffered while the connection
	// to NATS is down. A message that does not fit closes its line.
	reconnectBytes = 8 << 20
	// reconnectPause is the pause between two attempts to reconnect. reconnectJitter is added at
	// random, so that nodes do not reconnect at the same moment.
	reconnectPause  = 250 * time.Millisecond
	reconnectJitter = 100 * time.Millisecond
	// dialTime bounds one attempt to connect, and writeTime one write. After two pingIntervals a
	// silent server is detected.
	dialTime     = 2 * time.Second
	writeTime    = 3 * time.Second
	pingInterval = time.Second
	maxPings     = 2
	// startTime bounds the first connection: a cluster that has just been started elects its
	// leaders within this time. openTime bounds one attempt to open the state, because JetStream
	// never answers some requests that arrive while it changes its leader.
	startTime = 30 * time.Second
	openTime  = 5 * time.Second
	// callTime bounds a request to another node or to JetStream, and answerTime one attempt.
	// answerPause is the pause before the next attempt.
	callTime    = 3 * time.Second
	answerTime  = time.Second
	answerPause = 100 * time.Millisecond
	// interestTime is how long the servers of a cluster may take to announce a new subscription:
	// usually some milliseconds, but more on a busy machine. interestPause is the pause before the
	// second request. It doubles with each further request.
	interestTime  = 250 * time.Millisecond
	interestPause = 10 * time.Millisecond
	// closeTime bounds the last flush.
	closeTime = 2 * time.Second
)

// Limits of the state.
const (
	// registrationTime is how long a registration is kept if its executor's node does not renew it.
	// The node renews it every renewInterval. registrationTime is longer than the registration's
	// URL is valid.
	registrationTime = rendezvous.ExecutorURLTime + 2*renewInterval
	renewInterval    = time.Hour
	// maxRegistrations bounds the keys for registrations: two for each environment, the keys of
	// replaced registrations, and the markers of registrations that were removed within markerTime.
	maxRegistrations = 1 << 18
	markerTime       = 10 * time.Minute
	// maxRecord is the longest value, in bytes: a registration has some 2 KiB.
	maxRecord = 16 << 10
	// casAttempts bounds how often a change is attempted if other nodes change the value at the
	// same time.
	casAttempts = 8
	// defaultReplicas is how many servers of a cluster store the state: with
	// three, one may fail.
	defaultReplicas = 3
	// clockSkew is the largest assumed difference between the clocks of two nodes. A nonce is
	// remembered as used for that long after its expiry.
	clockSkew = time.Minute
	// maxFile bounds a file with credentials, or with all certificate authorities of a system.
	maxFile = 4 << 20
	// watchPause is the pause before the state is watched again after a failure.
	watchPause = time.Second
)
