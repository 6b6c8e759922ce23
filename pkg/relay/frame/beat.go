package frame

import "time"

// An empty record is a heartbeat that the relay can neither forge nor repeat. A harness sends one as its first record, which
// shows the executor that it sends them, and the executor answers with one. From then on each end sends an empty record when
// it has sent none for heartbeatTime, and ends the stream when it could open none for silenceTime. Scenario: a relay
// takes a record away and acknowledges it in the name of the receiver. The records behind it do not fill the gap, so the
// receiver hears nothing, whatever frames the relay forges (TestSwallowedRecords).
//
// Executors of Codex CLI skip empty records, and reset the stream if they do not know it.

// hear notes what a frame has released.
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

// sendsHeartbeats reports whether the peer gets frames of kind Heartbeat: it acknowledges, and is of a version that sends no
// empty records.
func (s *Stream) sendsHeartbeats() bool { return s.Acking() && !s.beats }
