package relay

import (
	"time"

	"codex.internal/pkg/relay/noise"
)

// The limits of an executor are those of Codex CLI.
const (
	// maxStreams bounds the streams whose handshake is over.
	maxStreams = 128
	// maxValidations bounds the concurrent requests to the registry.
	maxValidations = 32
	// warnFailures is the number of failed handshakes on a websocket after which a
	// warning is logged, once.
	warnFailures = 8
	// maxAuthorization bounds the authorization that a harness shows, in bytes.
	maxAuthorization = 4096
	// validationTime bounds one request to the registry.
	validationTime = 10 * time.Second
	// inboxMessages bounds the unread messages of a stream.
	inboxMessages = 128
	// recordQueue bounds the records of all streams that wait to be written.
	recordQueue = 128
)

const (
	// inboxBytes is the same limit for large messages: one message of the maximum size can wait
	// while the next is being assembled.
	inboxBytes = noise.MaxMessage
	// heldBytes bounds the records of a stream that wait for space in its inbox. A peer that
	// acknowledges never has that much in flight, because its limit is smaller by one record of
	// maxRecord bytes.
	heldBytes = 1 << 20
	maxRecord = 1<<16 - 1
	// heldRecords is the same limit for small records, and keeps the search for a record short. A
	// sender that has not yet seen an acknowledgement may have more than 32 records in flight;
	// after that its limit is 32.
	heldRecords = 1024
	// controlQueue bounds the control frames that wait to be written. Further ones are dropped:
	// either they are repeated, or without them the peer only waits longer. The queue has space for
	// the retransmissions of a few streams after a reconnect.
	controlQueue = 1024
	// controlOffer is the part of controlQueue that resets for unknown streams may fill. The rest
	// is for answers to handshakes: an executor that has no space for such an answer closes the
	// connection.
	controlOffer = controlQueue / 2
	// pieceTime bounds the writing of one frame. If it takes longer, the relay counts as lost.
	pieceTime = 30 * time.Second
	// closeTime bounds the writing of the queued frames when an end closes.
	closeTime = 2 * time.Second
	// keepRecord is the size from which the memory of a record is reused, in bytes. The reused
	// memory has the size of the largest record. A stream has at most 32 records in flight, so it
	// holds 2 MiB instead of the 960 KiB of its window.
	keepRecord = 16 << 10
	// partSize is the size of the buffers in which the parts of a large message are
	// gathered: whole records.
	partSize = 16 * noise.MaxChunk
	// bufferSize is the size of a websocket's read buffer: half a record.
	bufferSize = 32 << 10
)

// The timers of an executor.
const (
	// pingInterval is how often the relay is pinged. The connection counts as lost if nothing
	// arrives for two and a half intervals, not even an answer to a ping.
	pingInterval = 30 * time.Second
	// registerTime and executorDialTime bound a registration and a dial. Codex CLI has no such
	// limits.
	registerTime     = 30 * time.Second
	executorDialTime = 30 * time.Second
	// firstPause is the pause after the first failed dial. It doubles with each failure, up to
	// lastPause.
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// The limits of a harness.
const (
	// connectTime, dialTime and handshakeTime bound the parts of Dial.
	connectTime   = 10 * time.Second
	dialTime      = 10 * time.Second
	handshakeTime = 10 * time.Second
	// firstRetry is the pause before the first attempt to reach the relay again. It doubles with
	// each attempt, up to lastRetry. Up to half of the pause is added at random, so that many
	// harnesses that have lost the same relay do not reconnect at the same moment.
	firstRetry = 500 * time.Millisecond
	lastRetry  = 5 * time.Second
	// calmTime is how long a websocket must have lasted for the next one to be dialled at once. So
	// a relay that breaks each connection does not get a flood of new ones.
	calmTime = time.Second
)
