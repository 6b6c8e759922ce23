package rendezvous

import (
	"context"
	"time"
)

// stream is one stream of the executor, and the harness that has claimed it.
type stream struct {
	harness  string   // address; empty: the harness is gone, and may come back
	token    string   // of the harness; only a harness with the same token and
	identity string   // the same key may resume the stream
	account  *account // of the token
	share    *share   // the environment's share of the token

	handshaken bool // a handshake was sent to the executor
	opening    bool // the executor has not answered the handshake yet
	answered   bool // the executor has sent a frame that is not a reset
	// Each is set if that end has acknowledged records. If both are, the ends can resume the
	// stream.
	harnessAcks, executorAcks bool

	overdue bool        // the executor has not answered in time
	left    string      // address of the harness that is gone
	lapses  *time.Timer // sends Lapsed when the claim is overdue, or a harness that is gone does not come back
}

// claim gives a stream to the sender of a frame, if the sender may have another stream. The caller
// holds mu.
func (x *executor) claim(m *Message) bool {
	if !x.account.takeStream(m.Token) {
		return false
	}
	account, ok := x.srv.tokens.use(m.Token, (*account).addStream)
	if !ok {
		x.account.returnStream(m.Token)
		return false
	}
	id, harness := m.Stream, m.From
	s := &stream{harness: harness, token: m.Token, identity: m.Identity, account: account, share: x.account.share(m.Token)}
	s.lapses = time.AfterFunc(x.srv.resumeClaim, func() {
		x.mu.Lock()
		s.overdue = true
		x.mu.Unlock()
		x.sendLapsed(id, harness)
	})
	x.streams[id] = s
	return true
}

// answer records that the executor knows a stream. The caller holds mu.
func (x *executor) answer(s *stream) {
	if s.answered {
		return
	}
	s.answered = true
	s.lapses.Stop()
	if s.opening {
		s.opening = false
		x.account.endHandshake(s.token, false)
	}
}

// failed records that a stream's handshake has failed: the executor has reset the stream, or has
// not answered in time. The caller holds mu.
func (x *executor) failed(s *stream) {
	if !s.opening {
		return
	}
	s.opening = false
	x.account.endHandshake(s.token, true)
	x.srv.metrics.failures.Inc()
	h := x.harnesses[s.harness]
	if h == nil {
		return
	}
	if h.failures++; h.failures == harnessFailures {
		x.log.Warn("harness disconnected", "token", h.token, "reason", closeFailures)
		x.cut(s.harness, closeFailures)
	}
}

// abandon records that a harness no longer waits for the answer to its handshake. This is not a
// failure yet, because connections can break. The caller holds mu.
func (x *executor) abandon(id string, s *stream) {
	s.opening = false
	x.account.endHandshake(s.token, false)
	if x.abandoned == nil {
		x.abandoned = make(map[string]string)
	}
	x.abandoned[id] = s.token
	x.abandonedIDs = append(x.abandonedIDs, id)
	if len(x.abandonedIDs) > maxAbandoned {
		delete(x.abandoned, x.abandonedIDs[0])
		x.abandonedIDs = x.abandonedIDs[1:]
	}
}

// refusedLate charges a handshake that the executor refuses after its harness
// has abandoned it. The caller holds mu.
func (x *executor) refusedLate(id string) {
	if token, ok := x.abandoned[id]; ok {
		delete(x.abandoned, id)
		x.account.share(token).failures.Allow()
		x.srv.metrics.failures.Inc()
	}
}

// free removes a stream from the table. The caller holds mu.
func (x *executor) free(id string) {
	if s := x.streams[id]; s != nil {
		s.lapses.Stop()
		delete(x.streams, id)
		s.account.removeStream()
		x.account.returnStream(s.token)
		if s.opening {
			x.abandon(id, s)
		}
	}
}

// lapse resets the stream of a harness that has not reconnected, and frees a stream whose claim the
// executor has not answered.
func (x *executor) lapse(m *Message) error {
	x.mu.Lock()
	s := x.streams[m.Stream]
	gone := s != nil && s.harness == "" && s.left == m.From
	overdue := s != nil && s.overdue && !s.answered
	begun := overdue && s.handshaken
	if begun {
		x.refuse(&Message{From: s.harness, Stream: m.Stream}, resetUnanswered)
	}
	if overdue {
		x.failed(s)
	}
	if gone || overdue {
		x.free(m.Stream)
	}
	x.mu.Unlock()
	if !gone && !begun {
		// The harness reconnected or the answer arrived at the last moment, or the executor has
		// only received a resume of the stream.
		return nil
	}
	return x.resetGone(m.Stream)
}

// sendLapsed makes the executor's own goroutine end a stream whose harness has not reconnected. If
// the executor has disconnected, its streams have already ended.
func (x *executor) sendLapsed(id, harness string) {
	_, _ = x.srv.bus.Send(context.Background(), x.address, Message{Kind: Lapsed, From: harness, Stream: id})
}

// resetGone notifies the executor that a stream's harness has disconnected.
func (x *executor) resetGone(id string) error {
	x.srv.metrics.reset(resetHarnessGone)
	return x.socket.send(resetFrame(id, resetHarnessGone))
}
