package relay

import (
	"context"
	"fmt"
	"sync"
	"unicode/utf8"

	"codex.internal/pkg/internal/tokens"
	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/relay/noise"
)

// executorConn is one connection of an executor to the relay. It reads the frames and
// runs the handshakes of harnesses; frames of an admitted stream are passed to the
// stream.
type executorConn struct {
	e            *Executor
	l            *link
	registration Registration
	ctx          context.Context // of questions to the registry
	cancel       context.CancelFunc
	wg           sync.WaitGroup

	// The executor's lock guards these.
	claims     map[string]*claim
	validating int // current questions, including those whose harness is gone
	failures   int // handshakes, until warned
	over       bool
}

// claim is a handshake for which the registry has not answered yet.
type claim struct {
	responder *noise.Responder
	cancel    context.CancelFunc
}

func newExecutorConn(ctx context.Context, e *Executor, l *link, r Registration) *executorConn {
	v := &executorConn{e: e, l: l, registration: r, claims: make(map[string]*claim)}
	v.ctx, v.cancel = context.WithCancel(ctx)
	return v
}

// read handles frames until the link ends.
func (v *executorConn) read() error {
	for {
		f, err := v.l.read()
		switch {
		case err == nil:
			v.receive(f)
		case badMessage(err):
			v.e.log.Debug("relay message dropped", "error", err)
		default:
			return err
		}
	}
}

// end drops the claims, and no more harnesses are admitted.
func (v *executorConn) end() {
	v.e.mu.Lock()
	v.over = true
	v.claims = nil
	v.e.mu.Unlock()
	v.cancel()
}

func (v *executorConn) receive(f frame.Frame) {
	switch f.Kind {
	case frame.Handshake:
		v.handshake(f)
		return
	case frame.Data:
		if v.forget(f.StreamID) {
			v.fail(f.StreamID, fmt.Errorf("%w: data before the end of the handshake", frame.ErrProtocol))
			return
		}
	case frame.Reset:
		v.forget(f.StreamID)
	}
	s := v.e.stream(f.StreamID)
	if s == nil {
		if v.refusesUnknown(f) {
			v.reset(f.StreamID)
		}
		return
	}
	if err := s.receive(f); err != nil {
		s.end(err)
	}
}

// refusesUnknown reports whether the sender of a frame of an unknown stream is notified that the
// stream has ended. Otherwise the sender would use the ended stream until its own end of the stream
// gives up, too. Scenario: the relay loses a reset, or forges a reset for this end.
func (v *executorConn) refusesUnknown(f frame.Frame) bool {
	switch f.Kind {
	case frame.Data:
		return true
	case frame.Resume:
		return f.Seq > 0 // else a handshake may follow
	case frame.Ack, frame.Heartbeat:
		v.e.mu.Lock()
		defer v.e.mu.Unlock()
		return v.claims[f.StreamID] == nil
	default:
		return false
	}
}

// reset notifies the peer that the stream does not exist. It does not store ids that cannot be
// sent, because they may be long.
func (v *executorConn) reset(id string) {
	if frame.Sendable(id) {
		v.l.offer(resetOf(id, reasonExecutor))
	}
}

// fail refuses a handshake that failed. The link stays open, however many handshakes fail: it
// carries the streams of all harnesses, and one harness must not be able to end the streams of
// others. The relay knows which harness fails: codex rendezvous counts the failures for the
// connection and the token of the harness.
func (v *executorConn) fail(id string, why error) {
	v.e.log.Debug("handshake failed", "stream", streamID(id), "reason", why)
	v.reset(id)
	v.e.mu.Lock()
	v.failures++
	warn := v.failures == warnFailures
	v.e.mu.Unlock()
	if warn {
		v.e.log.Warn("many handshakes fail", "failures", warnFailures, "last", why)
	}
}

// forget drops a claim and reports whether there was one.
func (v *executorConn) forget(id string) bool {
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	c := v.claims[id]
	if c == nil {
		return false
	}
	delete(v.claims, id)
	c.cancel()
	return true
}

// handshake reads message 1 and asks the registry whether its sender may connect. Only the reader
// calls it, so no other claim for the id can appear meanwhile. If the id cannot be sent, the frame
// is invalid, as in the builds of Codex CLI that refuse such ids.
func (v *executorConn) handshake(f frame.Frame) {
	v.e.mu.Lock()
	over := v.over
	active := v.e.streams[f.StreamID] != nil
	full := len(v.e.streams) >= maxStreams || v.validating >= maxValidations
	v.e.mu.Unlock()
	switch {
	case over:
	case !frame.Sendable(f.StreamID):
		v.e.log.Debug("relay message dropped", "error", errUnsendable)
	case active:
		v.reset(f.StreamID)
	case v.forget(f.StreamID):
		v.fail(f.StreamID, fmt.Errorf("%w: a second handshake", frame.ErrProtocol))
	case full:
		v.reset(f.StreamID)
	default:
		responder, err := v.respond(f)
		if err != nil {
			v.fail(f.StreamID, err)
			return
		}
		v.ask(f.StreamID, responder)
	}
}

// respond checks message 1.
func (v *executorConn) respond(f frame.Frame) (*noise.Responder, error) {
	channel := noise.Channel{
		EnvironmentID: v.registration.EnvironmentID, ExecutorRegistrationID: v.registration.RegistrationID, StreamID: f.StreamID,
	}
	responder, err := noise.NewResponder(v.e.opts.Identity, channel, f.Payload)
	if err != nil {
		return nil, err
	}
	if a := responder.Payload(); len(a) > maxAuthorization || !utf8.Valid(a) {
		return nil, errRejected
	}
	return responder, nil
}

// ask makes the request to the registry in the background.
func (v *executorConn) ask(id string, responder *noise.Responder) {
	ctx, cancel := context.WithTimeout(v.ctx, validationTime)
	c := &claim{responder: responder, cancel: cancel}
	v.e.mu.Lock()
	v.claims[id] = c
	v.validating++
	v.e.mu.Unlock()
	v.wg.Go(func() {
		defer cancel()
		grant, err := v.e.opts.Validate(ctx, v.registration.RegistrationID, responder.PeerKey(), string(responder.Payload()))
		if err == nil {
			err = ctx.Err()
		}
		v.decide(id, c, grant, err)
	})
}

// decide admits a harness, or refuses it with err. It does nothing if the claim has ended.
func (v *executorConn) decide(id string, c *claim, grant *tokens.Grant, err error) {
	var message2 []byte
	var session *noise.Session
	if err == nil {
		message2, session, err = c.responder.Finish()
	}
	v.e.mu.Lock()
	v.validating--
	mine := v.claims[id] == c && !v.over
	full := len(v.e.streams) >= maxStreams
	if v.claims[id] == c {
		delete(v.claims, id)
	}
	var s *stream
	if mine && !full && err == nil {
		s = newStream(id, session, frame.Options{Plain: v.e.opts.Plain}, v.l, v.e.ended)
		v.e.streams[id] = s
	}
	v.e.mu.Unlock()
	switch {
	case !mine:
	case err != nil:
		v.fail(id, err)
	case full:
		v.reset(id)
	default:
		v.admit(s, message2, c.responder.PeerKey(), grant)
	}
}

// admit answers a harness and starts to serve its stream. It registers the stream before it sends
// the answer, because the first record may arrive immediately after that.
func (v *executorConn) admit(s *stream, message2 []byte, harness noise.PublicKey, grant *tokens.Grant) {
	v.e.log.Debug("stream opened", "stream", streamID(s.id))
	if !v.l.push(frame.Frame{StreamID: s.id, Kind: frame.Handshake, Payload: message2}) {
		v.l.shut() // and the stream ends with it
	}
	c := &streamConn{s: s, principal: principalOf(harness), grant: grant}
	v.e.wg.Go(s.routineTimer)
	v.e.wg.Go(func() {
		v.e.opts.Serve(c)
		_ = c.Abort()
	})
}
