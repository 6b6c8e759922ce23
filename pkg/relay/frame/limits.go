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
	// MaxHead is an upper bound for the size of an encoded frame without its payload or reason, in
	// bytes: its stream_id, and eight tags of a byte, each with a number of at most five bytes.
	MaxHead = MaxStreamID + 8*6
)

// These are Codex CLI's limits per stream for records that arrive early, that is, before a record
// that precedes them: how far ahead they may be, and how many bytes they may have.
const (
	reorderWindow = 64
	pendingBytes  = 1 << 20
)

// These limit the records that a sender has in flight. They are below every receiver's limits for
// early records. AckBits has a bit for each of these records.
const (
	windowRecords = 32
	windowBytes   = 960 << 10

	// memoryRecords and memoryBytes limit the latest records that are kept while it is unknown
	// whether the peer acknowledges.
	memoryRecords = windowRecords
	memoryBytes   = 1 << 20
	// unsignedData is how many records without an acknowledgement a peer may send before it counts
	// as a peer that never acknowledges.
	unsignedData = 8
)

// These determine when a separate acknowledgement is sent if no other frame carries it: at the
// latest in the middle of the window.
const (
	ackRecords = 16
	ackBytes   = 256 << 10
	ackDelay   = 200 * time.Millisecond
)

// These determine when a record is retransmitted. A round trip through a relay takes much less than
// a second.
const (
	firstRetransmit = time.Second
	lastRetransmit  = 8 * time.Second
	// earlyAfter is how many later records must have arrived before a record is retransmitted
	// early.
	earlyAfter = 3
	// stallTime is how long records may be in flight if none of them is acknowledged.
	stallTime = 30 * time.Second
)

// These determine when a stream is given up.
const (
	// retainTime is how long a stream outlives its websocket. Codex CLI keeps sessions for the same
	// time.
	retainTime = 30 * time.Second
	// answerTime is how long a harness waits for a frame that shows that the executor still has the
	// stream. After that it makes a new stream.
	answerTime = 5 * time.Second
	// heartbeatTime is how long an end may be idle before it sends a heartbeat. silenceTime is how
	// long an end waits before it considers the peer lost: three heartbeats, or one and a half of
	// those of earlier versions. It is shorter than the life of a session without a connection, 60
	// s. So an end that detects late that its stream has ended can still resume the session.
	heartbeatTime = 15 * time.Second
	silenceTime   = 45 * time.Second
	// firstRecordTime is how long an end waits for the first record. Harnesses send it after their
	// handshake. If a handshake was delayed, its harness may have given up and sends no record.
	firstRecordTime = 20 * time.Second

	// emptyRecord is the size of a record without content: the tag of AES-GCM.
	emptyRecord = 16
)
