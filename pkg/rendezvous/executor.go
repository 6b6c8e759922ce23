package rendezvous

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"codex.internal/pkg/relay/relayframe"
)

// executor is one connection of an executor, and the table of the streams that
// it serves. A stream is claimed by the first handshake or resume of its id, in
// the name of the harness that sends it, and is free again when either end has
// reset it, the harness is gone, or the executor does not answer the claim in
// time. If both ends acknowledge, which shows that they can go on with it over
// another connection, it waits for the harness for a while before.
//
// Handshakes that fail are charged to the connection and the token that they
// come from: a connection with too many of them is closed, and a token with too
// many begins no more for a while. So is the time for which a harness that does
// not read keeps the executor's output waiting.
type executor struct {
	srv                *Server
	socket             *socket
	box                *Mailbox
	address            string
	account            *account // of the environment
	token, environment string
	log                *slog.Logger

	mu        sync.Mutex
	harnesses map[string]*member // by address
	tokens    map[string]int     // how many of them each token has
	streams   map[string]*stream // by id
	// abandoned has the tokens of handshakes that their harnesses did not wait
	// for, by stream, and abandonedIDs their streams, the oldest first: if the
	// executor refuses one it has failed all the same.
	abandoned    map[string]string
	abandonedIDs []string
}

// member is a harness that has joined.
type member struct {
	token    string
	failures int // handshakes
}

// stream is who has claimed it.
type stream struct {
	harness  string // address; empty: it has gone, and may come back
	token    string // what it came with, and under which key: who is the same
	identity string
	account  *account // of the harness's token
	share    *share   // of the environment, which the token has

	handshaken bool // the executor has had a handshake
	opening    bool // and has not answered it
	answered   bool // the executor has sent something that is no reset
	// The two ends have been seen to acknowledge.
	harnessAcks, executorAcks bool

	overdue bool        // the executor has not answered in time
	left    string      // address of the harness that has gone
	lapses  *time.Timer // sends Lapsed: when the claim is overdue, or a harness that has gone does not come back
}

// executorAddress is where harnesses reach an executor.
func executorAddress(registration string) string { return "executor." + registration }

// bind takes the executor's address; unbind must follow, also after an error:
// harnesses may have found the address meanwhile. Messages wait until serve
// handles them.
func (x *executor) bind(ctx context.Context, generation uint64) error {
	replaced, err := x.srv.bus.Bind(ctx, x.address, generation, x.box)
	// They came for the connection that this one replaces.
	x.turnAway(replaced)
	return err
}

// serve relays until the executor is gone.
func (x *executor) serve(ctx context.Context) error { return x.socket.run(ctx, x.box, x) }

// unbind gives everything back, and tells the harnesses that the executor is
// gone.
func (x *executor) unbind() {
	defer x.srv.bus.Unbind(x.address, x.box)
	x.turnAway(x.box.Close(closeExecutorGone))
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, s := range x.streams {
		// That their handshakes were not answered is not the harnesses' fault.
		x.answer(s)
		x.free(id)
	}
	for harness := range x.harnesses {
		x.sendGone(harness)
	}
}

// turnAway gives messages back that nobody will handle.
func (x *executor) turnAway(left []Message) {
	for i := range left {
		left[i].done()
		x.sendGone(left[i].From)
	}
}

// sendGone tells a harness that its executor is gone. One that cannot be told
// is gone itself.
func (x *executor) sendGone(harness string) {
	_, _ = x.srv.bus.Send(context.Background(), harness, Message{Kind: Gone, From: x.address})
}

// free takes a stream out of the table. The caller holds mu.
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

// abandon notes that a harness does not wait for the answer to its handshake.
// That is no failure by itself: connections break. The caller holds mu.
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

// refusedLate charges a handshake that was abandoned before the executor has
// refused it. The caller holds mu.
func (x *executor) refusedLate(id string) {
	if token, ok := x.abandoned[id]; ok {
		delete(x.abandoned, id)
		x.account.share(token).failures.Allow()
		x.srv.metrics.failures.Inc()
	}
}

// failed notes that a stream's handshake has come to nothing: the executor has
// reset it or not answered. The caller holds mu.
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

// cut disconnects a harness. The executor learns of it as if the harness had
// gone.
func (x *executor) cut(harness string, why *closing) {
	_, _ = x.srv.bus.Send(context.Background(), x.address, Message{Kind: Left, From: harness})
	_, _ = x.srv.bus.Send(context.Background(), harness, Message{Kind: Gone, From: x.address, Data: []byte(why.reason)})
}

// handle takes what harnesses send.
func (x *executor) handle(m Message) error {
	defer m.done()
	switch m.Kind {
	case Joined:
		x.join(&m)
	case Left, Lost:
		return x.forget(m.From)
	case Lapsed:
		return x.lapse(&m)
	case Frame:
		if !x.route(&m) {
			return nil
		}
		x.account.up.meter.add(len(m.Data), x.srv.now())
		x.srv.metrics.framesUp.Inc()
		x.srv.metrics.bytesUp.Add(len(m.Data))
		return x.socket.send(m.Data)
	}
	return nil
}

func (x *executor) join(m *Message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.harnesses[m.From] == nil {
		x.harnesses[m.From] = &member{token: m.Token}
		x.tokens[m.Token]++
	}
}

// leave takes a harness out of the tables. The caller holds mu.
func (x *executor) leave(harness string) {
	h := x.harnesses[harness]
	if h == nil {
		return
	}
	delete(x.harnesses, harness)
	if x.tokens[h.token]--; x.tokens[h.token] == 0 {
		delete(x.tokens, h.token)
	}
}

// forget resets the streams of a harness that is gone, at once or, if they can
// be resumed, after a while.
func (x *executor) forget(harness string) error {
	x.mu.Lock()
	x.leave(harness)
	var gone []string
	for id, s := range x.streams {
		switch {
		case s.harness != harness:
		case s.harnessAcks && s.executorAcks:
			s.harness, s.left = "", harness
			s.lapses.Stop()
			s.lapses = time.AfterFunc(x.srv.opts.ResumeTime, func() { x.sendLapsed(id, harness) })
		default:
			gone = append(gone, id)
			x.free(id)
		}
	}
	x.mu.Unlock()
	for _, id := range gone {
		if err := x.resetGone(id); err != nil {
			return err
		}
	}
	return nil
}

// sendLapsed has the executor's own goroutine end a stream whose harness has not
// come back. If the executor is gone, so is the stream.
func (x *executor) sendLapsed(id, harness string) {
	_, _ = x.srv.bus.Send(context.Background(), x.address, Message{Kind: Lapsed, From: harness, Stream: id})
}

// lapse resets the stream of a harness that has not come back, and frees one
// whose claim the executor has not answered.
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
		// The harness has come back, or the answer has come, at the last moment;
		// or the executor has seen nothing of the stream but a resume.
		return nil
	}
	return x.resetGone(m.Stream)
}

// resetGone tells the executor that a stream's harness is gone.
func (x *executor) resetGone(id string) error {
	x.srv.metrics.reset(resetHarnessGone)
	return x.socket.send(resetFrame(id, resetHarnessGone))
}

// route says whether a harness's frame goes to the executor.
func (x *executor) route(m *Message) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.harnesses[m.From] == nil {
		// It has joined an earlier connection and is about to be told.
		x.srv.metrics.drop(dropNotJoined)
		return false
	}
	opens := m.Frame == relayframe.Handshake || m.Frame == relayframe.Resume
	s := x.streams[m.Stream]
	switch {
	case s == nil && opens:
		if !x.claim(m) {
			x.refuse(m, resetStreamLimit)
			return false
		}
	case s == nil:
		if m.Frame == relayframe.Data {
			x.refuse(m, resetUnknownStream)
		} else {
			x.srv.metrics.drop(dropUnknownStream)
		}
		return false
	case m.Frame == relayframe.Handshake && (s.handshaken || s.answered):
		// The executor would refuse it with a reset, and keep the stream.
		x.refuse(m, resetStreamTaken)
		return false
	case s.harness != m.From && opens && s.identity == m.Identity && s.token == m.Token:
		// The same harness comes back, perhaps before the end of its former
		// connection was noticed. A claim without an answer lapses all the same.
		s.harness = m.From
		if s.answered {
			s.lapses.Stop()
		}
	case s.harness != m.From:
		x.refuse(m, resetStreamTaken)
		return false
	}
	switch s = x.streams[m.Stream]; m.Frame {
	case relayframe.Reset:
		x.free(m.Stream)
	case relayframe.Handshake:
		if !x.account.beginHandshake(s.token) {
			x.free(m.Stream)
			x.refuse(m, resetStreamLimit)
			return false
		}
		s.handshaken, s.opening, s.overdue = true, true, false
		s.lapses.Reset(x.srv.handshakeClaim)
	case relayframe.Ack:
		s.harnessAcks = true
	}
	return true
}

// claim gives a stream to the sender of a frame, if it may have one more. The
// caller holds mu.
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

// refuse resets a harness's stream in the name of the executor.
func (x *executor) refuse(m *Message, reason string) {
	x.srv.metrics.reset(reason)
	reply := Message{Kind: Reply, From: x.address, Data: resetFrame(m.Stream, reason)}
	// A harness that is gone, or does not read, need not know.
	if sent, err := x.srv.bus.Send(context.Background(), m.From, reply); !sent || err != nil {
		x.srv.metrics.drop(dropReply)
	}
}

// receive takes what the executor sends.
func (x *executor) receive(ctx context.Context, h header, in message) error {
	x.mu.Lock()
	harness, token := "", ""
	var share *share
	if s := x.streams[h.stream]; s != nil {
		harness, token, share = s.harness, s.token, s.share
		s.executorAcks = s.executorAcks || h.kind == relayframe.Ack
		if h.kind != relayframe.Reset {
			x.answer(s)
		} else {
			x.failed(s)
		}
	} else if h.kind == relayframe.Reset {
		x.refusedLate(h.stream)
	}
	if h.kind == relayframe.Reset {
		// Before the harness learns it: it may use the id again.
		x.free(h.stream)
	}
	x.mu.Unlock()
	if harness == "" {
		// The harness is gone, or has not come back yet.
		x.srv.metrics.drop(dropUnknownStream)
		return nil
	}
	size := len(in.text)
	held := int64(size + frameBytes)
	if !share.down.TryAcquire(held) {
		err := x.stall(ctx, harness, token, share, func(ctx context.Context) error { return share.down.Acquire(ctx, held) })
		switch {
		case errors.Is(err, errCut):
			in.free()
			x.srv.metrics.drop(dropHarnessGone)
			return nil
		case err != nil:
			return err
		}
	}
	admitted, err := x.account.down.admit(ctx, size)
	if err != nil {
		share.down.Release(held)
		return err
	}
	done := func() { admitted(); share.down.Release(held); in.free() }
	m := Message{Kind: Frame, From: x.address, Stream: h.stream, Frame: h.kind, Data: in.text, Done: done}
	send := func(ctx context.Context) error {
		_, err := x.srv.bus.Send(ctx, harness, m)
		return err
	}
	// Most have room.
	if err = send(ended); err != nil {
		err = x.stall(ctx, harness, token, share, send)
	}
	switch {
	case errors.Is(err, ErrNobody), errors.Is(err, errCut):
		done()
		x.srv.metrics.drop(dropHarnessGone)
	case err != nil:
		done()
		return err
	default:
		x.account.down.meter.add(size, x.srv.now())
		x.srv.metrics.framesDown.Inc()
		x.srv.metrics.bytesDown.Add(size)
	}
	return nil
}

// answer notes that the executor knows a stream. The caller holds mu.
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

// errCut says that a harness was disconnected because the executor's output
// waited for it too long.
var errCut = errors.New("the harness was disconnected")

// ended is a context for what must not wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// stall waits for a harness that does not read what it gets, with f, which must
// return when its context ends. All that the executor sends comes through one
// connection, so that the other harnesses wait too: if one of another token is
// there, the time is charged to the token, and when that has no more the harness
// is disconnected. The error is errCut then.
func (x *executor) stall(ctx context.Context, harness, token string, share *share, f func(context.Context) error) error {
	for {
		began := time.Now()
		bound, cancel := context.WithTimeout(ctx, stallSlice)
		err := f(bound)
		cancel()
		waited := time.Since(began)
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			if x.disturbs(token) {
				share.stalls.AllowN(began, int(waited.Milliseconds()))
			}
			return err
		}
		if x.disturbs(token) && !share.stalls.AllowN(time.Now(), int(waited.Milliseconds())) {
			x.log.Warn("harness disconnected", "token", token, "reason", closeSlow)
			x.cut(harness, closeSlow)
			return errCut
		}
	}
}

// disturbs reports whether harnesses of other tokens are there.
func (x *executor) disturbs(token string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.tokens) > 1 || len(x.tokens) == 1 && x.tokens[token] == 0
}

// check implements socketEnd.
func (x *executor) check() error { return x.srv.checkToken(x.token, RoleExecutor, x.environment) }

// drop implements socketEnd.
func (x *executor) drop(ctx context.Context, why error) error {
	x.srv.metrics.drop(dropInvalid)
	x.log.Debug("message dropped", "reason", why)
	return x.account.down.frames.Wait(ctx)
}
