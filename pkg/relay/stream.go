package relay

import (
	"bytes"
	"sync"
	"time"

	"codex.internal/pkg/internal/wait"
	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/relay/noise"
)

// stream is one end of a stream after its handshake. It joins the encryption, the frames, the
// messages, and the link that currently carries them. The reader of the link calls receive, the
// consumer calls read, and one writer at a time calls send. routineTimer handles deadlines.
//
// A stream is in one of three states: attached to a connection to the relay; detached, when that
// connection is lost and may be replaced; and ended, when err is set. Messages that arrived before
// the end can still be read.
type stream struct {
	id      string
	session *noise.Session
	// onEnd is called once, without the lock, by the goroutine that ends the stream.
	onEnd func(s *stream, l *link, why error)

	mu       sync.Mutex
	frames   *frame.Stream
	messages noise.MessageReader
	link     *link // nil: detached
	unheard  bool  // no frame came since the last link was lost
	armed    time.Time
	err      error

	inbox     [][]byte
	inboxSize int
	held      []frame.Frame // data that waits for space in the inbox
	heldSize  int

	arrived chan struct{} // wakes the consumer; capacity 1, like the others
	taken   chan struct{} // wakes the goroutine that waits for space in the inbox
	ready   chan struct{} // wakes the writer
	rearm   chan struct{} // wakes the timer
	ended   chan struct{} // closed with err
}

func newStream(id string, session *noise.Session, o frame.Options, l *link, onEnd func(*stream, *link, error)) *stream {
	signal := func() chan struct{} { return make(chan struct{}, 1) }
	return &stream{
		id: id, session: session, onEnd: onEnd, frames: frame.NewStream(id, o, time.Now()), link: l,
		arrived: signal(), taken: signal(), ready: signal(), rearm: signal(), ended: make(chan struct{}),
	}
}

// end ends the stream, unless it has ended.
func (s *stream) end(why error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = why
	l := s.link
	s.link, s.held, s.heldSize = nil, nil, 0
	close(s.ended)
	s.mu.Unlock()
	s.onEnd(s, l, why)
}

// reset returns the stream's last frame.
func (s *stream) reset(reason string) frame.Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frames.Reset(reason)
}

// full reports whether the inbox accepts no more frames. One frame can release other records that
// waited for it: at most the reorder window, for which the inbox always has space.
func (s *stream) full() bool { return len(s.inbox) >= inboxMessages || s.inboxSize >= inboxBytes }

// acking reports whether the peer is known to acknowledge.
func (s *stream) acking() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frames.Acking()
}

// receive takes a frame from the link. An error means that the stream has ended. If the consumer is
// slow and the peer acknowledges, the peer's records are put aside without being acknowledged, so
// that it soon stops sending. A peer that does not acknowledge cannot be slowed down; the error is
// then errInboxFull.
func (s *stream) receive(f frame.Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unheard = false
	switch {
	case s.err != nil:
		return nil // it came late
	case f.Kind != frame.Data || !s.full() && len(s.held) == 0:
		return s.take(f)
	case !s.frames.Acking():
		return errInboxFull
	}
	if !s.hold(f) {
		return errInboxFull
	}
	// The acknowledgements in the frame are handled even if its record is not.
	return s.take(frame.Frame{StreamID: f.StreamID, Kind: frame.Heartbeat, Ack: f.Ack, AckBits: f.AckBits})
}

// hold puts a record aside, and reports whether there was space. For a peer that acknowledges there
// always is, because it has few records in flight.
func (s *stream) hold(f frame.Frame) bool {
	for _, h := range s.held {
		if h.Seq == f.Seq {
			return true
		}
	}
	if len(s.held) >= heldRecords || s.heldSize+len(f.Payload) > heldBytes {
		return false
	}
	f.Payload = bytes.Clone(f.Payload)
	s.held = append(s.held, f)
	s.heldSize += len(f.Payload)
	return true
}

// take passes a frame to the state machine and reads the records that it releases. The
// caller holds the lock.
func (s *stream) take(f frame.Frame) error {
	out, err := s.frames.Receive(f, time.Now())
	if err != nil {
		return err
	}
	for _, record := range out.Records {
		// Decrypt in place, because the encrypted record is no longer needed.
		plain, err := s.session.Open(record[:0], record)
		if err == nil {
			err = s.messages.Read(plain, s.deliver)
		}
		if err != nil {
			return err
		}
	}
	// Do this before the consumer sends anything: see frame.Stream.BeatDue.
	if err := s.beat(); err != nil {
		return err
	}
	s.push(out.Frames)
	s.acted()
	wait.Wake(s.ready)
	return nil
}

// beat sends an empty record if one is due. The caller holds the lock.
func (s *stream) beat() error {
	now := time.Now()
	if s.link == nil || !s.frames.BeatDue(now) {
		return nil
	}
	sealed, err := s.session.Seal(nil, nil)
	if err != nil {
		return err
	}
	f, err := s.frames.Send(sealed, nil, now)
	if err == nil && !s.link.push(f) {
		err = errLinkFull // a record that is not sent again would leave a gap
	}
	return err
}

func (s *stream) deliver(message []byte) error {
	s.inbox = append(s.inbox, message)
	s.inboxSize += len(message)
	wait.Wake(s.arrived)
	return nil
}

// push queues frames that are sent again if they get lost. The caller holds the lock.
func (s *stream) push(frames []frame.Frame) {
	for _, f := range frames {
		if s.link == nil || !s.link.push(f) {
			return
		}
	}
}

// acted makes the timer fire earlier if the next deadline has moved forward. The caller
// holds the lock.
func (s *stream) acted() {
	due := s.frames.Deadline()
	if !due.IsZero() && (s.armed.IsZero() || due.Before(s.armed)) {
		wait.Wake(s.rearm)
	}
}

// read returns the next message. After the end of the stream it returns the messages that had
// arrived, and then the reason.
func (s *stream) read() ([]byte, error) {
	for {
		message, broken, err := s.next()
		if broken != nil {
			s.end(broken)
		}
		if message != nil || err != nil {
			return message, err
		}
		select {
		case <-s.arrived:
		case <-s.ended:
		}
	}
}

// next takes a message from the inbox and reads records that waited for space. broken is set if
// that breaks the stream. If there is no message, err is set if none will follow.
func (s *stream) next() (message []byte, broken, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.inbox) == 0 {
		return nil, nil, s.err
	}
	message = s.inbox[0]
	s.inbox[0] = nil
	s.inbox = s.inbox[1:]
	s.inboxSize -= len(message)
	for broken == nil && len(s.held) > 0 && !s.full() {
		f := s.held[0]
		s.held = s.held[1:]
		s.heldSize -= len(f.Payload)
		broken = s.take(f)
	}
	wait.Wake(s.taken)
	return message, broken, nil
}

// send sends a part of a message as one record. It waits while the peer has not acknowledged
// enough, while other streams are ahead in the queue, and while there is no link. Its error is the
// stream's.
func (s *stream) send(chunk []byte) error {
	for {
		l, err := s.writable(len(chunk))
		if err != nil {
			return err
		}
		if l == nil || !l.reserve(s.ended) {
			select {
			case <-s.ready:
			case <-s.ended:
			}
			continue
		}
		sent, err := s.sendOn(l, chunk)
		if !sent {
			l.release()
		}
		if err != nil {
			s.end(err)
			return err
		}
		if sent {
			return nil
		}
	}
}

// writable returns the link if a record may be sent there now.
func (s *stream) writable(n int) (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || !s.frames.Ready(n+noise.RecordOverhead) {
		return nil, s.err
	}
	return s.link, nil
}

// sendOn sends a record with a slot of the link, if the stream can still send there.
func (s *stream) sendOn(l *link, chunk []byte) (sent bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(chunk) + noise.RecordOverhead
	if s.err != nil || s.link != l || !s.frames.Ready(n) {
		return false, s.err
	}
	r := newRecord(n)
	sealed, err := s.session.Seal(r.memory, chunk)
	if err != nil {
		return false, err
	}
	f, err := s.frames.Send(sealed, r.free, time.Now())
	if err != nil {
		return false, err
	}
	l.write(queued{f, r})
	s.acted()
	return true, nil
}

// detach records that the link is lost. If the peer does not acknowledge, the stream ends.
func (s *stream) detach() {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.link, s.unheard = nil, true
	err := s.frames.Disconnected(time.Now())
	s.acted()
	s.mu.Unlock()
	if err != nil {
		s.end(err)
	}
}

// attach continues the stream over another link.
func (s *stream) attach(l *link) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	frames, err := s.frames.Reconnected(time.Now())
	if err == nil {
		s.link = l
		s.push(frames)
		s.acted()
		wait.Wake(s.ready)
	}
	s.mu.Unlock()
	if err != nil {
		s.end(err)
	}
}

// routineTimer calls advance at each deadline until the stream has ended.
func (s *stream) routineTimer() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.rearm:
		case <-s.ended:
			return
		}
		due, err := s.advance()
		switch {
		case err != nil:
			s.end(err)
		case due.IsZero():
			timer.Stop()
		default:
			timer.Reset(time.Until(due))
		}
	}
}

func (s *stream) advance() (due time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return time.Time{}, nil
	}
	frames, err := s.frames.Advance(time.Now())
	if err == nil {
		err = s.beat()
	}
	s.push(frames)
	s.armed = s.frames.Deadline()
	wait.Wake(s.ready)
	return s.armed, err
}
