package frame

import "time"

// Deadline returns the time when Advance must be called if no other event happens first. It returns
// the zero time if no deadline is pending.
func (s *Stream) Deadline() time.Time {
	var next time.Time
	at := func(on bool, t time.Time) {
		if on && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	switch {
	case s.failed != nil:
	case s.lost:
		at(true, s.lostAt.Add(retainTime))
	default:
		at(s.in.next == 0, s.opened.Add(firstRecordTime))
		at(s.beats, s.opened.Add(silenceTime))
		at(s.canBeat(), s.beatAt)
		at(s.owes(), s.unackedSince.Add(ackDelay))
		at(!s.resumedAt.IsZero(), s.resumedAt.Add(answerTime))
		at(s.waiting(), s.retransmitAt)
		at(s.waiting(), s.stalledSince.Add(stallTime))
		at(s.sendsHeartbeats(), s.wrote.Add(heartbeatTime))
		at(s.Acking(), s.heard.Add(silenceTime))
	}
	return next
}

// Advance handles everything that is due at now and returns the frames to write. It may be called
// at any time.
func (s *Stream) Advance(now time.Time) ([]Frame, error) {
	if s.failed == nil {
		s.failed = s.expired(now)
	}
	if s.failed != nil || s.lost {
		return nil, s.failed
	}
	var frames []Frame
	if s.waiting() && !now.Before(s.retransmitAt) {
		frames = s.resend(false, now)
		s.pause = min(2*s.pause, lastRetransmit)
		s.retransmitAt = now.Add(s.pause)
	}
	if s.ackDue(now) {
		frames = append(frames, s.frame(Frame{Kind: Ack}, now))
	}
	if s.sendsHeartbeats() && !now.Before(s.wrote.Add(heartbeatTime)) {
		frames = append(frames, s.frame(Frame{Kind: Heartbeat}, now))
	}
	return frames, nil
}

// expired returns the reason why the stream must end at now, or nil if it continues.
func (s *Stream) expired(now time.Time) error {
	since := func(t time.Time, limit time.Duration) bool { return now.Sub(t) >= limit }
	switch {
	case s.lost && since(s.lostAt, retainTime):
		return errNotRestored
	case s.lost:
		return nil
	case !s.resumedAt.IsZero() && since(s.resumedAt, answerTime):
		return errNoAnswer
	case s.waiting() && since(s.stalledSince, stallTime):
		return errStalled
	case s.in.next == 0 && since(s.opened, firstRecordTime):
		return errNoRecord
	case s.beats && since(s.opened, silenceTime), s.Acking() && since(s.heard, silenceTime):
		return errSilent
	}
	return nil
}

// Disconnected records that the end's websocket is lost. If the peer acknowledges, the stream is
// kept for 30 s, and Send returns ErrNotReady meanwhile. Otherwise the records in flight are lost,
// and the stream fails.
func (s *Stream) Disconnected(now time.Time) error {
	switch {
	case s.failed != nil:
		return s.failed
	case !s.Acking():
		return s.fail(errDisconnected)
	case !s.lost:
		s.lost, s.lostAt = true, now
	}
	return nil
}

// Reconnected records that there is another websocket on which the stream can continue. It must
// have the same executor registration and, at a harness, the same executor key. It returns the
// frames to write there first.
func (s *Stream) Reconnected(now time.Time) ([]Frame, error) {
	if s.failed == nil {
		s.failed = s.expired(now)
	}
	if s.failed != nil || !s.lost {
		return nil, s.failed
	}
	s.lost = false
	s.heard, s.beatAt = now, now
	// The time without a websocket counts as answerTime. Otherwise a relay that breaks websockets
	// again and again could postpone the end of a stream forever (TestForgedSigns).
	s.opened = s.opened.Add(now.Sub(s.lostAt) - answerTime)
	if s.options.Harness {
		s.resumedAt = now
	}
	s.progress(now)
	frames := []Frame{s.frame(Frame{Kind: Resume, Seq: uint32(min(s.out.base, maxSeq))}, now)}
	return append(frames, s.resend(false, now)...), nil
}
