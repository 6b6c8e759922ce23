package frame

import "time"

// Options configure a stream.
type Options struct {
	// Harness is set at the end that made the stream. After Reconnected it
	// waits only a short time for an executor that has forgotten the stream.
	Harness bool
	// Plain makes a stream behave like Codex CLI's: it acknowledges nothing and
	// sends every record once.
	Plain bool
}

// peer is what this end knows about the other end.
type peer uint8

const (
	// unknown: the peer has not shown whether it acknowledges. Records are sent once, and the last
	// of them are kept.
	unknown peer = iota
	// acking: the peer has acknowledged a record or sent a heartbeat. Records are kept and
	// retransmitted until they are acknowledged, and there is a window.
	acking
	// plain: the peer has sent data without acknowledgements. Each record is sent to it once. This
	// state is final.
	plain
)

// Stream is one end of a stream after its handshake. Only one goroutine at a time may call its
// methods. Times that are passed to it must not decrease. Once a method has returned an error other
// than ErrNotReady, all methods return that error.
//
// A stream is connected until Disconnected is called, and again after Reconnected. Its owner must
// pass arriving frames to it without delay: frames that wait are not acknowledged, and the peer
// retransmits them.
type Stream struct {
	id      string
	options Options
	failed  error
	in      receiver
	out     sender
	peer    peer
	data    int // frames with data while the peer is unknown

	// These are the records and bytes that were received and not acknowledged yet, and the time
	// when the first of them arrived.
	unackedRecords, unackedBytes int
	unackedSince                 time.Time

	lost      bool
	lostAt    time.Time
	resumedAt time.Time // until when the peer must send something; zero: no answer is awaited
	answered  time.Time // when the last resume was answered with records
	wrote     time.Time // the last frame
	heard     time.Time

	beats  bool      // the peer sends empty records, which show that it hears
	beatAt time.Time // when an empty record is due, if no record is sent before
	opened time.Time // when the last record came that others do not wait for

	retransmitAt time.Time // while records are in flight
	pause        time.Duration
	stalledSince time.Time
}

// NewStream returns one end of the stream with an id, whose handshake is complete.
func NewStream(id string, o Options, now time.Time) *Stream {
	s := &Stream{id: id, options: o, wrote: now, heard: now, beatAt: now, opened: now}
	if o.Plain {
		s.peer = plain
	}
	return s
}

// Acking reports whether the peer is known to acknowledge records, so that the
// stream survives the loss of a connection.
func (s *Stream) Acking() bool { return s.peer == acking }

// Ready reports whether a record of n bytes may be sent. It returns false if the stream is not
// connected, or while a peer that acknowledges has not yet acknowledged enough.
func (s *Stream) Ready(n int) bool {
	switch {
	case s.failed != nil || s.lost:
		return false
	case s.peer != acking:
		return true
	default:
		return s.out.inFlight() < windowRecords && s.out.bytes+n <= windowBytes
	}
}

// Send returns the frame of the next record. Records must be passed in the order in which they were
// sealed. The stream keeps the record, so the caller must not change it before free is called, if
// free is not nil. When free is called, only the returned frame may still refer to the record. free
// is called during Send, later, or never.
func (s *Stream) Send(record []byte, free func(), now time.Time) (Frame, error) {
	switch {
	case s.failed != nil:
		return Frame{}, s.failed
	case !s.Ready(len(record)):
		return Frame{}, ErrNotReady
	case s.out.next > maxSeq:
		return Frame{}, s.fail(ErrExhausted)
	}
	s.beatAt = now.Add(heartbeatTime)
	idle := s.out.inFlight() == 0
	seq := s.out.add(record, free)
	switch s.peer {
	case unknown:
		s.out.trim()
	case plain:
		s.out.forget()
	case acking:
		if idle {
			s.progress(now)
		}
	}
	return s.frame(Frame{Kind: Data, Seq: seq, Payload: record}, now), nil
}

// Output is the result of a received frame.
type Output struct {
	// Records are the records that can be opened now, in order. If opening one fails, the stream
	// ends, and the owner must not write Frames.
	Records [][]byte
	Frames  []Frame
}

// Receive takes a valid frame of this stream. A frame of kind Handshake is an
// error: an executor, for which it does not end the stream, must not pass it to
// Receive. If the frame arrived early, its payload is copied; otherwise the
// released record is the payload itself.
func (s *Stream) Receive(f Frame, now time.Time) (Output, error) {
	if s.failed != nil {
		return Output{}, s.failed
	}
	s.heard, s.resumedAt = now, time.Time{}
	first := s.in.next == 0
	var out Output
	switch f.Kind {
	case Reset:
		return Output{}, s.fail(ErrReset)
	case Handshake:
		return Output{}, s.fail(errUnexpected)
	case Data:
		var err error
		if out.Records, err = s.in.accept(f.Seq, f.Payload, nil); err != nil {
			return Output{}, s.fail(err)
		}
		s.owe(len(f.Payload), now)
		s.hear(out.Records, now)
	}
	if s.options.Plain {
		return out, nil
	}
	s.learn(&f, now)
	switch {
	case s.lost:
		return out, nil // Reconnected will send the necessary frames
	case s.peer == acking && f.Kind == Resume:
		out.Frames = s.answer(now)
	case s.peer == acking:
		out.Frames = s.resend(true, now)
	}
	// The first record is acknowledged at once, so that the peer learns that
	// this end acknowledges.
	if first && s.in.next > 0 || s.ackDue(now) {
		out.Frames = append(out.Frames, s.frame(Frame{Kind: Ack}, now))
	}
	return out, nil
}

// frame completes a frame that is about to be written.
func (s *Stream) frame(f Frame, now time.Time) Frame {
	f.StreamID = s.id
	if !s.options.Plain {
		f.Ack, f.AckBits = s.in.acks()
	}
	// In a frame of another kind, 0 does not show whether the first record has
	// arrived.
	if f.Ack > 0 || f.AckBits > 0 || f.Kind == Ack {
		s.unackedRecords, s.unackedBytes = 0, 0
	}
	s.wrote = now
	return f
}

// Reset returns the frame that notifies the peer that the stream has ended. It may be called after
// any error.
func (s *Stream) Reset(reason string) Frame {
	f := Frame{StreamID: s.id, Kind: Reset, Reason: reason}
	if !s.options.Plain {
		f.Ack, f.AckBits = s.in.acks()
	}
	return f
}

func (s *Stream) fail(err error) error {
	s.failed = err
	return err
}
