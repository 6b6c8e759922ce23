package relay

import (
	"time"

	"codex.internal/pkg/relay/noise"
)

// The limits of an executor. They are those of Codex CLI.
const (
	// maxStreams bounds the streams whose handshake is over.
	maxStreams = 128
	// maxValidations bounds the questions to the registry that are under way.
	maxValidations = 32
	// warnFailures is the number of failed handshakes on a websocket after which a
	// warning is logged, once.
	warnFailures = 8
	// maxAuthorization bounds the authorization that a harness shows, in bytes.
	maxAuthorization = 4096
	// validationTime bounds one question to the registry.
	validationTime = 10 * time.Second
	// inboxMessages bounds the unread messages of a stream.
	inboxMessages = 128
	// recordQueue bounds the records of all streams that wait to be written.
	recordQueue = 128
)

const (
	// inboxBytes is the same bound as inboxMessages for large messages: one of
	// the largest waits while the next is being put together.
	inboxBytes = noise.MaxMessage
	// heldBytes bounds the records of a stream that wait for room in its inbox.
	// A peer that acknowledges has no more in flight, and one record of maxRecord
	// bytes less.
	heldBytes = 1 << 20
	maxRecord = 1<<16 - 1
	// heldRecords is the same bound for small records, and keeps the search for
	// one short. A sender that has not seen an acknowledgement yet may have more
	// records in flight than the 32 of one that has.
	heldRecords = 1024
	// controlQueue bounds the control frames that wait to be written. Further ones are
	// dropped: they are repeated, or only spare the peer a wait. There is room for the
	// retransmissions of a few streams after a reconnect.
	controlQueue = 1024
	// controlOffer is how much of it resets for unknown streams may fill. An executor
	// that has no room for its answer to a handshake closes the connection.
	controlOffer = controlQueue / 2
	// pieceTime bounds the writing of one frame. A relay that takes longer is lost.
	pieceTime = 30 * time.Second
	// closeTime bounds the writing of what is queued when an end closes.
	closeTime = 2 * time.Second
	// keepRecord is the size, in bytes, from which the memory of a record is reused. It
	// is as large as the largest record: a stream has at most 32 in flight, and so holds
	// 2 MiB in place of the 960 KiB of its window.
	keepRecord = 16 << 10
	// partSize is the size of the buffers in which the parts of a large message are
	// gathered: whole records.
	partSize = 16 * noise.MaxChunk
	// bufferSize is the size of a websocket's read buffer: half a record.
	bufferSize = 32 << 10
)

// The timers of an executor.
const (
	// pingInterval is how often the relay is pinged. The connection is lost if nothing,
	// not even an answer to a ping, comes for two and a half intervals.
	pingInterval = 30 * time.Second
	// registerTime and executorDialTime bound a registration and a dial, which Codex CLI
	// does not bound.
	registerTime     = 30 * time.Second
	executorDialTime = 30 * time.Second
	// firstPause doubles with each attempt to dial that fails, to lastPause.
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// The limits of a harness.
const (
	// connectTime, dialTime and handshakeTime bound the parts of Dial.
	connectTime   = 10 * time.Second
	dialTime      = 10 * time.Second
	handshakeTime = 10 * time.Second
	// firstRetry doubles with each attempt to reach the relay again, to lastRetry. Up to
	// half of the pause is added at random, so that many harnesses that have lost the
	// same relay do not come back together.
	firstRetry = 500 * time.Millisecond
	lastRetry  = 5 * time.Second
	// calmTime is how long a websocket must have lasted for the next to be dialled at
	// once, so that a relay that breaks each connection is not flooded with new ones.
	calmTime = time.Second
)
