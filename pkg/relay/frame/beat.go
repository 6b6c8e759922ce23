package frame

import "time"

// An empty record is a heartbeat that the relay can neither forge nor repeat. A harness sends one
// as its first record. This shows the executor that the harness sends empty records, and the
// executor answers with one. From then on each end sends an empty record when it has sent no record
// for heartbeatTime, and ends the stream when it could decrypt no record for silenceTime. Scenario:
// a relay drops a record and acknowledges it in the name of the receiver. The later records do not
// fill the gap, so the receiver can decrypt none of them, whatever frames the relay forges
// (TestSwallowedRecords).
//
// Executors of Codex CLI skip empty records. If they do not know the stream, they reset it.

// hear notes the time when a frame has released records.
func (s *Stream) hear(records [][]byte, now time.Time) {
	for _, record := range records {
		s.opened = now
		s.beats = s.beats || len(record) == emptyRecord
	}
}

// canBeat reports whether an empty record may be sent, as soon as one is due.
func (s *Stream) canBeat() bool {
	return !s.options.Plain && (s.options.Harness || s.beats) && s.Ready(emptyRecord)
}

// BeatDue reports whether the owner has to Send an empty record now.
func (s *Stream) BeatDue(now time.Time) bool {
	return s.canBeat() && !now.Before(s.beatAt)
}

// sendsHeartbeats reports whether the peer gets frames of kind Heartbeat. It does if it
// acknowledges, and has a version that does not send empty records.
func (s *Stream) sendsHeartbeats() bool { return s.Acking() && !s.beats }
