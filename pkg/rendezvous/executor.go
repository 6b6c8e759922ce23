package rendezvous

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"codex.internal/pkg/relayframe"
)

// executor is one connection of an executor, and the table of the streams that
// it serves. A stream is claimed by the first handshake or resume of its id, in
// the name of the harness that sends it, and is free again when either end has
// reset it or the harness is gone. If both ends acknowledge, which shows that
// they can go on with it over another connection, it waits for the harness for a
// while before.
type executor struct {
	srv                *Server
	socket             *socket
	box                *Mailbox
	address            string
	account            *account // of the environment
	token, environment string
	log                *slog.Logger

	mu        sync.Mutex
	harnesses map[string]bool    // addresses
	streams   map[string]*stream // by id
}

// stream is who has claimed it.
type stream struct {
	harness  string // address; empty: it has gone, and may come back
	token    string // what it came with, and under which key: who is the same
	identity string
	account  *account // of the harness's token

	handshaken bool // the executor has had a handshake
	// The two ends have been seen to acknowledge.
	harnessAcks, executorAcks bool

	left   string      // address of the harness that has gone
	lapses *time.Timer // sends Lapsed; nil before a harness has gone
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
	for id := range x.streams {
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
		if s.lapses != nil {
			s.lapses.Stop()
		}
		delete(x.streams, id)
		s.account.removeStream()
		x.account.removeStream()
	}
}

// handle takes what harnesses send.
func (x *executor) handle(m Message) error {
	defer m.done()
	switch m.Kind {
	case Joined:
		x.mu.Lock()
		x.harnesses[m.From] = true
		x.mu.Unlock()
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

// forget resets the streams of a harness that is gone, at once or, if they can
// be resumed, after a while.
func (x *executor) forget(harness string) error {
	x.mu.Lock()
	delete(x.harnesses, harness)
	var gone []string
	for id, s := range x.streams {
		switch {
		case s.harness != harness:
		case s.harnessAcks && s.executorAcks:
			s.harness, s.left = "", harness
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

// lapse resets the stream of a harness that has not come back.
func (x *executor) lapse(m *Message) error {
	x.mu.Lock()
	s := x.streams[m.Stream]
	lapsed := s != nil && s.harness == "" && s.left == m.From
	if lapsed {
		x.free(m.Stream)
	}
	x.mu.Unlock()
	if !lapsed {
		return nil // it has come back at the last moment
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
	if !x.harnesses[m.From] {
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
	case m.Frame == relayframe.Handshake && s.handshaken:
		// The executor would refuse it with a reset, and keep the stream.
		x.refuse(m, resetStreamTaken)
		return false
	case s.harness != m.From && opens && s.identity == m.Identity && s.token == m.Token:
		// The same harness comes back, perhaps before the end of its former
		// connection was noticed.
		s.harness = m.From
		if s.lapses != nil {
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
		s.handshaken = true
	case relayframe.Ack:
		s.harnessAcks = true
	}
	return true
}

// claim gives a stream to the sender of a frame, if it may have one more. The
// caller holds mu.
func (x *executor) claim(m *Message) bool {
	if !x.account.addStream() {
		return false
	}
	account, ok := x.srv.tokens.use(m.Token, (*account).addStream)
	if !ok {
		x.account.removeStream()
		return false
	}
	x.streams[m.Stream] = &stream{harness: m.From, token: m.Token, identity: m.Identity, account: account}
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
	harness := ""
	if s := x.streams[h.stream]; s != nil {
		harness = s.harness
		s.executorAcks = s.executorAcks || h.kind == relayframe.Ack
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
	admitted, err := x.account.down.admit(ctx, size)
	if err != nil {
		return err
	}
	done := func() { admitted(); in.free() }
	m := Message{Kind: Frame, From: x.address, Stream: h.stream, Frame: h.kind, Data: in.text, Done: done}
	_, err = x.srv.bus.Send(ctx, harness, m)
	switch {
	case errors.Is(err, ErrNobody):
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

// check implements socketEnd.
func (x *executor) check() error { return x.srv.checkToken(x.token, RoleExecutor, x.environment) }

// drop implements socketEnd.
func (x *executor) drop(ctx context.Context, why error) error {
	x.srv.metrics.drop(dropInvalid)
	x.log.Debug("message dropped", "reason", why)
	return x.account.down.frames.Wait(ctx)
}
