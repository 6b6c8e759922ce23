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
	// warnFailures is after how many failed handshakes on a websocket the log
	// says so, once.
	warnFailures = 8
	// maxAuthorization bounds the authorization that a harness shows, in bytes.
	maxAuthorization = 4096
	// validationTime bounds one question to the registry.
	validationTime = 10 * time.Second
	// inboxMessages bounds the messages of a stream that nobody has taken.
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
	// controlQueue bounds the frames that wait to be written and that nothing
	// depends on, because they are repeated or only spare the peer a wait. It
	// has room for what is sent again on a few streams after a reconnect.
	controlQueue = 1024
	// controlOffer is how much of it resets for unknown streams may fill. Without
	// a place for its answer to a handshake, an executor closes the connection.
	controlOffer = controlQueue / 2
	// pieceTime bounds the writing of one frame. A relay that takes so long
	// takes nothing any more.
	pieceTime = 30 * time.Second
	// closeTime bounds the writing of what is queued when an end closes.
	closeTime = 2 * time.Second
	// keepRecord is from which size, in bytes, a record has memory that is used
	// again, which is as much as the largest needs: a stream has at most 32 in
	// flight, and so holds 2 MiB in place of the 960 KiB of its window.
	keepRecord = 16 << 10
	// partSize is that of the pieces in which a message waits that is made part
	// by part: whole records.
	partSize = 16 * noise.MaxChunk
	// bufferSize is that of what is read from a websocket: half a record.
	bufferSize = 32 << 10
)

// When an executor turns to its relay.
const (
	// pingInterval is how often the relay is pinged. Nothing, not even an answer
	// to a ping, may come from it for two and a half intervals.
	pingInterval = 30 * time.Second
	// registerTime and executorDialTime bound what has no bound in Codex
	// CLI.
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
	// firstRetry doubles with each attempt to find the relay again, to
	// lastRetry; up to half as much again is chance, so that many harnesses
	// that have lost the same relay do not come back together.
	firstRetry = 500 * time.Millisecond
	lastRetry  = 5 * time.Second
	// calmTime is how long a websocket must have lasted for the next to be made
	// at once: a relay that breaks each is not hammered.
	calmTime = time.Second
)
