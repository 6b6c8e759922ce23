package frame

import "time"

// Limits of frames.
const (
	// MaxFrame is the longest encoded frame, in bytes. A websocket on which a
	// longer message arrives must be closed, as Codex CLI does.
	MaxFrame = 256 << 10
	// MaxStreamID and MaxReason are in bytes. Some builds of Codex CLI
	// refuse more; the others, and Decode, do not.
	MaxStreamID = 128
	MaxReason   = 256

	// maxPayload is the longest Noise message.
	maxPayload = 1<<16 - 1
	// MaxHead is more than the size, in bytes, of an encoded frame without its
	// payload or reason: its stream_id, and eight tags of a byte with as many
	// numbers of at most five bytes.
	MaxHead = MaxStreamID + 8*6
)

// The limits that Codex CLI sets, per stream, for records that arrive before one that
// precedes them: how far ahead they may be, and how many bytes they may have.
const (
	reorderWindow = 64
	pendingBytes  = 1 << 20
)

// These limit the records that a sender has in flight. They are below every
// receiver's limits for early records, and AckBits has a bit for each record.
const (
	windowRecords = 32
	windowBytes   = 960 << 10

	// memoryRecords and memoryBytes are the last records that are kept while it
	// is unknown whether the peer acknowledges.
	memoryRecords = windowRecords
	memoryBytes   = 1 << 20
	// unsignedData is how many records a peer sends before it is taken for one
	// that does not.
	unsignedData = 8
)

// When records are acknowledged that no other frame acknowledges: in the middle
// of the window at the latest.
const (
	ackRecords = 16
	ackBytes   = 256 << 10
	ackDelay   = 200 * time.Millisecond
)

// When something is sent again. A round trip through a relay stays well below
// a second.
const (
	firstRetransmit = time.Second
	lastRetransmit  = 8 * time.Second
	// earlyAfter is how many later records must have arrived for one to be
	// sent again before its time.
	earlyAfter = 3
	// stallTime is how long records may be in flight without any of them being
	// acknowledged.
	stallTime = 30 * time.Second
)

// When a stream is given up.
const (
	// retainTime is how long a stream outlives its websocket: as long as Codex
	// CLI keeps sessions.
	retainTime = 30 * time.Second
	// answerTime is how long a harness waits for a sign that the executor still
	// has the stream, before it makes a new one.
	answerTime = 5 * time.Second
	// heartbeatTime is how long an end sends nothing before it sends a
	// heartbeat. silenceTime is how long it waits before it counts the peer as
	// lost: three heartbeats, or one and a half of former versions. It is shorter
	// than the life of a session without a connection, 60 s: an end that notices
	// late that its stream has ended can still resume the session.
	heartbeatTime = 15 * time.Second
	silenceTime   = 45 * time.Second
	// firstRecordTime is how long an end waits for the first record. Harnesses
	// send it after their handshake. A harness whose handshake was delayed has
	// left, and sends none.
	firstRecordTime = 20 * time.Second

	// emptyRecord is the size of a record without content: the tag of AES-GCM.
	emptyRecord = 16
)
