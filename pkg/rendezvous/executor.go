package rendezvous

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"codex.internal/pkg/relay/frame"
)

// executor is one connection of an executor, and the table of the streams that it serves. The first
// handshake or resume with a stream's id claims the stream for the harness that sends it. The
// stream becomes free when either end resets it, when the harness disconnects, or when the executor
// does not answer the claim in time. If both ends acknowledge, they can continue the stream over
// another connection; it then waits for the harness for a while before it becomes free.
//
// Failed handshakes are charged to their connection and their token. A connection with too many
// failures is closed. A token with too many failures cannot begin new handshakes for a while. The
// time for which a harness that does not read delays the executor's output is charged to the
// harness's token.
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
	leaving   bool               // it was asked to reconnect, to another node
	// abandoned has the tokens of handshakes whose harnesses did not wait for the answer, by
	// stream. abandonedIDs has their streams, the oldest first. If the executor later refuses such
	// a handshake, it still counts as failed.
	abandoned    map[string]string
	abandonedIDs []string
}

// member is a harness that has joined the executor.
type member struct {
	token    string
	agent    string // the program; empty: unknown
	failures int    // handshakes
}

// executorAddress returns the address at which harnesses reach an executor.
func executorAddress(registration string) string { return "executor." + registration }

// bind takes the executor's address. The caller must call unbind afterwards, even if bind returns
// an error, because harnesses may have found the address meanwhile. Messages wait until serve
// handles them.
func (x *executor) bind(ctx context.Context, generation uint64) error {
	replaced, err := x.srv.bus.Bind(ctx, x.address, generation, x.box)
	// These messages were sent to the connection that this one replaces.
	x.turnAway(replaced)
	return err
}

// serve relays messages until the executor disconnects.
func (x *executor) serve(ctx context.Context) error { return x.socket.run(ctx, x.box, x) }

// unbind releases all resources, and notifies the harnesses that the executor has disconnected.
func (x *executor) unbind() {
	defer x.srv.bus.Unbind(x.address, x.box)
	x.turnAway(x.box.Close(closeExecutorGone))
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, s := range x.streams {
		// The harnesses are not at fault if their handshakes were not answered.
		x.answer(s)
		x.free(id)
	}
	for harness := range x.harnesses {
		x.sendGone(harness)
	}
}

// turnAway answers messages that will not be handled because their executor has disconnected.
func (x *executor) turnAway(left []Message) {
	for i := range left {
		left[i].done()
		x.sendGone(left[i].From)
	}
}

// sendGone notifies a harness that its executor has disconnected. If the message does not reach the
// harness, the harness has disconnected itself.
func (x *executor) sendGone(harness string) {
	_, _ = x.srv.bus.Send(context.Background(), harness, Message{Kind: Gone, From: x.address})
}

// handle handles messages of harnesses.
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
		// A node of another version may send a longer name.
		x.harnesses[m.From] = &member{token: m.Token, agent: string(m.Data[:min(len(m.Data), maxAgent)])}
		x.tokens[m.Token]++
	}
}

// leave removes a harness from the tables. The caller holds mu.
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

// forget resets the streams of a harness that has disconnected. Streams that can be resumed are
// reset later.
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

// route reports whether a harness's frame is forwarded to the executor.
func (x *executor) route(m *Message) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.harnesses[m.From] == nil {
		// The harness joined an earlier connection, and will be notified that this connection has
		// ended.
		x.srv.metrics.drop(dropNotJoined)
		return false
	}
	opens := m.Frame == frame.Handshake || m.Frame == frame.Resume
	s := x.streams[m.Stream]
	switch {
	case s == nil && opens:
		if !x.claim(m) {
			x.refuse(m, resetStreamLimit)
			return false
		}
	case s == nil:
		if m.Frame == frame.Reset {
			x.srv.metrics.drop(dropUnknownStream)
		} else {
			x.refuse(m, resetUnknownStream)
		}
		return false
	case m.Frame == frame.Handshake && (s.handshaken || s.answered):
		// The executor would answer this frame with a reset, and the stream would remain open.
		x.refuse(m, resetStreamTaken)
		return false
	case s.harness != m.From && opens && s.identity == m.Identity && s.token == m.Token:
		// The same harness reconnects, perhaps before the end of its former connection was noticed.
		// A claim without an answer still expires.
		s.harness = m.From
		if s.answered {
			s.lapses.Stop()
		}
	case s.harness != m.From:
		x.refuse(m, resetStreamTaken)
		return false
	}
	switch s = x.streams[m.Stream]; m.Frame {
	case frame.Reset:
		x.free(m.Stream)
	case frame.Handshake:
		if !x.account.beginHandshake(s.token) {
			x.free(m.Stream)
			x.refuse(m, resetStreamLimit)
			return false
		}
		s.handshaken, s.opening, s.overdue = true, true, false
		s.lapses.Reset(x.srv.handshakeClaim)
	case frame.Ack:
		s.harnessAcks = true
	}
	return true
}

// refuse resets a harness's stream in the name of the executor.
func (x *executor) refuse(m *Message, reason string) {
	x.srv.metrics.reset(reason)
	reply := Message{Kind: Reply, From: x.address, Data: resetFrame(m.Stream, reason)}
	// A harness that has disconnected, or does not read, need not be notified.
	if sent, err := x.srv.bus.Send(context.Background(), m.From, reply); !sent || err != nil {
		x.srv.metrics.drop(dropReply)
	}
}

// check implements socketEnd.
func (x *executor) check() error {
	if x.mustLeave() {
		return closeUneven
	}
	return x.srv.checkToken(x.token, RoleExecutor, x.environment, "")
}

// drop implements socketEnd.
func (x *executor) drop(ctx context.Context, why error) error {
	x.srv.metrics.drop(dropInvalid)
	x.log.Debug("message dropped", "reason", why)
	return x.account.down.frames.Wait(ctx)
}
