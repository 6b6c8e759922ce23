package frame

import "time"

// owe records that a frame with data has arrived and must be acknowledged. A duplicate counts too,
// because the acknowledgement of the first copy may be lost.
func (s *Stream) owe(n int, now time.Time) {
	if s.unackedRecords == 0 {
		s.unackedSince = now
	}
	s.unackedRecords++
	s.unackedBytes += n
}

// owes reports whether there is anything to acknowledge. The format cannot express an
// acknowledgement before the first record has arrived.
func (s *Stream) owes() bool { return s.unackedRecords > 0 && s.in.next > 0 && !s.options.Plain }

// ackDue reports whether an acknowledgement is due now.
func (s *Stream) ackDue(now time.Time) bool {
	return s.owes() && (s.unackedRecords >= ackRecords || s.unackedBytes >= ackBytes || !now.Before(s.unackedSince.Add(ackDelay)))
}

// learn updates, from a frame, whether the peer acknowledges and which records have
// arrived there.
func (s *Stream) learn(f *Frame, now time.Time) {
	if s.peer == plain {
		return
	}
	said, news := s.out.acknowledge(f)
	switch {
	case s.peer == acking:
		if news {
			s.progress(now)
		}
	case said || f.Kind == Heartbeat:
		s.peer = acking
		s.progress(now)
	case f.Kind == Data:
		if s.data++; s.data >= unsignedData {
			s.peer = plain
			s.out.forget()
		}
	}
}

// progress restarts the timers for the acknowledgement of the records in flight.
func (s *Stream) progress(now time.Time) {
	s.stalledSince = now
	s.pause = firstRetransmit
	s.retransmitAt = now.Add(s.pause)
}

// waiting reports whether any record in flight will be acknowledged.
func (s *Stream) waiting() bool { return s.peer == acking && s.out.inFlight() > 0 }

// resend returns the frames of records that have not arrived at the peer. If early is set, it
// returns only those before which later records have arrived.
func (s *Stream) resend(early bool, now time.Time) []Frame {
	var frames []Frame
	s.out.missing(early, func(seq uint32, record []byte) {
		frames = append(frames, s.frame(Frame{Kind: Data, Seq: seq, Payload: record}, now))
	})
	return frames
}

// answer handles a peer that resumes the stream. It confirms that the stream exists, and
// retransmits the records that may have been lost with the peer's connection. It retransmits at
// most once in firstRetransmit, because the relay could forge any number of resumes.
func (s *Stream) answer(now time.Time) []Frame {
	var frames []Frame
	if now.Sub(s.answered) >= firstRetransmit {
		s.answered = now
		frames = s.resend(false, now)
	}
	kind := Heartbeat
	if s.in.next > 0 {
		kind = Ack
	}
	return append(frames, s.frame(Frame{Kind: kind}, now))
}
