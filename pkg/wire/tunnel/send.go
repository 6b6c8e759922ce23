package tunnel

import (
	"io"
	"net"
)

// Write sends bytes to the peer. It blocks while the peer's window is full. After CloseWrite it
// returns io.ErrClosedPipe. If the peer has closed the tunnel, it returns a *ClosedError.
func (s *Stream) Write(b []byte) (total int, err error) {
	for total < len(b) {
		n, err := s.keep(b[total:])
		if err != nil {
			return total, err
		}
		total += n
		s.flush()
	}
	return total, nil
}

// keep waits for space in the window and stores as many bytes as fit.
func (s *Stream) keep(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		room := s.peerWindow - (s.written - s.acked)
		switch {
		case s.closing:
			return 0, net.ErrClosed
		case s.ended:
			return 0, io.ErrClosedPipe
		case s.peerClosed:
			return 0, &ClosedError{s.peerReason}
		case s.err != nil:
			return 0, s.err
		case s.writeDeadline.passed():
			return 0, errTimeout
		case room > 0:
			b = b[:min(uint64(len(b)), room, MaxData)]
			if last := len(s.kept) - 1; last >= 0 && len(s.kept[last])+len(b) <= MaxData {
				s.kept[last] = append(s.kept[last], b...)
			} else {
				s.kept = append(s.kept, append([]byte(nil), b...))
			}
			s.written += uint64(len(b))
			return len(b), nil
		}
		s.pause(&s.writeDeadline)
	}
}

// message is the next message to send.
type message struct {
	carrier Carrier
	data    []byte
	offset  uint64
	end     bool
	close   bool
	reason  string
}

// flush sends the pending messages, unless there is no connection.
func (s *Stream) flush() {
	s.sending.Lock()
	defer s.sending.Unlock()
	for {
		m, ok := s.take()
		if !ok {
			return
		}
		var err error
		if m.close {
			err = m.carrier.Close(s.ctx, s.id, m.reason)
		} else {
			err = m.carrier.Data(s.ctx, s.id, m.offset, m.data, m.end)
		}
		s.sent(m, err)
	}
}

// take returns the next message. The caller holds sending.
func (s *Stream) take() (m message, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.carrier == nil || s.over || s.err != nil {
		return m, false
	}
	m = message{carrier: s.carrier, offset: s.next}
	switch {
	case s.aborted && !s.closeSent:
		s.closeSent = true
		m.close, m.reason = true, s.reason
	case s.next < s.written:
		m.data = s.after(s.next)
		s.next += uint64(len(m.data))
		m.end = s.ended && s.next == s.written
		s.endSent = m.end
	case s.ended && !s.endSent:
		s.endSent, m.end = true, true
	case s.closing && !s.closeSent:
		s.closeSent, m.close = true, true
	default:
		return m, false
	}
	return m, true
}

// after returns the bytes of one stored piece that begin at an offset. The caller holds mu.
func (s *Stream) after(offset uint64) []byte {
	skip := offset - s.keptFrom
	for _, piece := range s.kept {
		if skip < uint64(len(piece)) {
			return piece[skip:]
		}
		skip -= uint64(len(piece))
	}
	return nil
}

// sent records whether a message was sent.
func (s *Stream) sent(m message, err error) {
	s.mu.Lock()
	if err != nil && s.carrier == m.carrier {
		s.carrier = nil
	}
	last := err == nil && s.finish()
	s.mu.Unlock()
	if last {
		s.done(s)
	}
}

// Ack handles an acknowledgement of the peer. The error is a *Violation.
func (s *Stream) Ack(position uint64) error {
	s.mu.Lock()
	if position > s.next && !(s.endSent && position == s.written+1) {
		s.mu.Unlock()
		return &Violation{"bytes were acknowledged that were not sent"}
	}
	if s.endSent && position == s.written+1 {
		s.endAcked = true
		position = s.written
	}
	s.acked = max(s.acked, position)
	for len(s.kept) > 0 && s.keptFrom+uint64(len(s.kept[0])) <= s.acked {
		s.keptFrom += uint64(len(s.kept[0]))
		s.kept[0] = nil
		s.kept = s.kept[1:]
	}
	last := s.finish()
	s.changed()
	s.mu.Unlock()
	if last {
		s.done(s)
	}
	return nil
}

// CloseWrite ends this end's direction. The other direction continues.
func (s *Stream) CloseWrite() error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return net.ErrClosed
	}
	s.ended = true
	s.changed()
	s.mu.Unlock()
	s.flush()
	return nil
}

// Close ends both directions. Data that was written is still sent; data that the peer sends is
// dropped.
func (s *Stream) Close() error { return s.close("", false) }

// Abort ends both directions at once, and tells the peer a reason, which must not be
// empty. Unsent data is dropped.
func (s *Stream) Abort(reason string) error { return s.close(reason, true) }

func (s *Stream) close(reason string, abort bool) error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return net.ErrClosed
	}
	s.closing, s.ended = true, true
	s.aborted, s.reason = abort, reason
	s.queue = nil
	if s.peerClosed {
		// The peer still waits until its last bytes are acknowledged.
		s.consumed, s.endConsumed = s.received, s.peerEnded
	}
	last := s.finish()
	s.changed()
	s.unlockAndTell()
	if last {
		s.done(s)
	} else {
		s.flush()
	}
	return nil
}

// Closing reports whether Close or Abort was called.
func (s *Stream) Closing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// Resume continues the stream over a new carrier. The peer has received the bytes up to
// a position; Flush sends the later ones again. The error is a *Violation.
func (s *Stream) Resume(c Carrier, position uint64) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	end := s.ended && position == s.written+1
	if position < s.acked || position > s.written && !end {
		return &Violation{"the peer sent a position that the tunnel never had"}
	}
	s.carrier, s.closeSent, s.told = c, false, 0
	s.next, s.endSent = min(position, s.written), end
	return nil
}

// Flush sends the bytes that, according to Resume, the peer has not received. It may block,
// like Write.
func (s *Stream) Flush() {
	s.flush()
	s.mu.Lock()
	position, c := s.position(), s.carrier
	s.mu.Unlock()
	if c != nil && position > 0 {
		_ = c.Ack(s.ctx, s.id, position)
	}
}
