package relay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/relay/noise"
	wire "codex.internal/pkg/wire/websocket"
)

// message1 is the first message of a harness with the test's identity.
func message1(t *testing.T, executor noise.PublicKey, channel noise.Channel, authorization string) []byte {
	t.Helper()
	_, message, err := noise.NewInitiator(identity(), executor, channel, []byte(authorization))
	if err != nil {
		t.Fatal(err)
	}
	return message
}

// channelOf is the context to which the handshakes of a stream are bound.
func channelOf(id string) noise.Channel {
	return noise.Channel{EnvironmentID: where.EnvironmentID, ExecutorRegistrationID: where.RegistrationID, StreamID: id}
}

// shake sends message as message 1 of a stream's handshake.
func (r *remote) shake(id string, message []byte) {
	r.t.Helper()
	r.send(frame.Frame{StreamID: id, Kind: frame.Handshake, Payload: message})
}

// flipped returns a message 1 in which one bit is flipped.
func flipped(t *testing.T, at int) []byte {
	message := message1(t, identity().PublicKey(), channelOf("x"), "please")
	message[(at+len(message))%len(message)] ^= 1
	return message
}

// TestForgedHandshakes sends, as message 1 for stream x, messages that no
// harness sends. Each is refused in the same way, and the connection stays.
func TestForgedHandshakes(t *testing.T) {
	stranger, err := noise.GenerateIdentity()
	if err != nil {
		t.Fatal(err)
	}
	me := identity().PublicKey()
	good := message1(t, me, channelOf("x"), "please")
	other := func(change func(*noise.Channel)) []byte {
		c := channelOf("x")
		change(&c)
		return message1(t, me, c, "please")
	}
	for name, message := range map[string][]byte{
		"for another executor":     message1(t, stranger.PublicKey(), channelOf("x"), "please"),
		"of another environment":   other(func(c *noise.Channel) { c.EnvironmentID = "env-2" }),
		"of another registration":  other(func(c *noise.Channel) { c.ExecutorRegistrationID = "" }),
		"of another stream":        other(func(c *noise.Channel) { c.StreamID = "y" }),
		"with its parts moved":     other(func(c *noise.Channel) { c.EnvironmentID, c.ExecutorRegistrationID = "env-1r", "egistration-1" }),
		"encapsulation changed":    flipped(t, 0),
		"ephemeral X25519 changed": flipped(t, 1088),
		"ephemeral ML-KEM changed": flipped(t, 1120),
		"static X25519 changed":    flipped(t, 2304),
		"static ML-KEM changed":    flipped(t, 2352),
		"authorization changed":    flipped(t, 3552),
		"tag changed":              flipped(t, -1),
		"ephemeral X25519 of 0":    slices.Concat(good[:1088], make([]byte, 32), good[1120:]),
		"one byte short":           good[:len(good)-1],
		"one byte long":            append(slices.Clip(good), 0),
		"of one byte":              {0},
		"of zeros":                 make([]byte, 1<<16-1),
		"as long as message 2":     make([]byte, 3424),
		"authorization too long":   message1(t, me, channelOf("x"), strings.Repeat("a", maxAuthorization+1)),
		"authorization too long, in characters of two bytes": message1(t, me, channelOf("x"), strings.Repeat("é", maxAuthorization/2)+"a"),
		"authorization no text":                              message1(t, me, channelOf("x"), "a\xc3"),
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := meet(t, ExecutorOptions{Serve: echo, Validate: told(func(_ context.Context, _ string, _ noise.PublicKey, a string) error {
				if a != "please" {
					t.Errorf("the registry is asked about %q", a)
				}
				return nil
			})})
			s := r.enter("other")
			for range warnFailures {
				r.shake("x", message)
				r.expect("x", frame.Reset)
			}
			r.says("other", s, 0)
			r.says("x", r.enter("x"), 0)
		})
	}
}

// TestLargestAuthorization: the largest permitted authorization is accepted.
func TestLargestAuthorization(t *testing.T) {
	want := strings.Repeat("é", maxAuthorization/2)
	r, _ := meet(t, ExecutorOptions{Serve: echo, Validate: told(func(_ context.Context, _ string, _ noise.PublicKey, got string) error {
		if got != want {
			t.Errorf("the registry is asked about %d bytes", len(got))
		}
		return nil
	})})
	r.knock("x", want)
	r.expect("x", frame.Handshake)
}

// gate is a registry that does not answer until the test permits it.
type gate chan struct{}

func (g gate) validate(ctx context.Context, _ string, _ noise.PublicKey, authorization string) error {
	if authorization != "wait" {
		return nil
	}
	select {
	case <-g:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestUncounted repeats requests that are refused although the sender is not at fault. The
// connection and the streams stay open.
func TestUncounted(t *testing.T) {
	for name, tt := range map[string]struct {
		streams, pending int // besides the stream of the test
		do               func(r *remote)
		resets           bool
	}{
		"a handshake on an active stream": {0, 0, func(r *remote) { r.knock("other", "again") }, true},
		"a replay of its message 1":       {0, 0, func(r *remote) { r.shake("other", message1(r.t, identity().PublicKey(), channelOf("other"), "please")) }, true},
		"data on no stream":               {0, 0, func(r *remote) { r.data("x", 0, []byte("x")) }, true},
		"one stream too many":             {maxStreams - 1, 0, func(r *remote) { r.knock("x", "please") }, true},
		"one question too many":           {0, maxValidations, func(r *remote) { r.knock("x", "please") }, true},
		"a reset of what is pending":      {0, 1, func(r *remote) { r.knock("x", "wait"); r.send(resetOf("x", "\x1b[2J")) }, false},
		"a reset of nothing":              {0, 0, func(r *remote) { r.send(resetOf("x", "y")) }, false},
		"a heartbeat of nothing":          {0, 0, func(r *remote) { r.send(frame.Frame{StreamID: "x", Kind: frame.Heartbeat, Ack: 9, AckBits: 9}) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := make(gate)
			r, _ := meet(t, ExecutorOptions{Serve: echo, Validate: told(g.validate)})
			s := r.enter("other")
			for i := range tt.streams {
				r.enter(fmt.Sprint(i))
			}
			for i := range tt.pending {
				r.knock(fmt.Sprint(i), "wait")
			}
			for range warnFailures + 1 {
				tt.do(r)
				if tt.resets {
					f := r.get()
					if f.Kind != frame.Reset || f.StreamID != "x" && f.StreamID != "other" {
						t.Fatalf("%v of %q", f.Kind, f.StreamID)
					}
				}
			}
			r.says("other", s, 0)
			close(g)
			for range tt.pending {
				if f := r.get(); f.Kind != frame.Handshake {
					t.Fatalf("%v of %q, which was pending", f.Kind, f.StreamID)
				}
			}
			r.says("other", s, 1)
		})
	}
}

// TestNoRoomByThen: when the registry admits a harness, the maximum number of
// streams already exists.
func TestNoRoomByThen(t *testing.T) {
	g := make(gate)
	r, _ := meet(t, ExecutorOptions{Serve: echo, Validate: told(g.validate)})
	// The request for it is the last but one, so that it is answered in time however slowly the
	// machine admits the others.
	for i := range maxStreams - 1 {
		r.enter(fmt.Sprint(i))
	}
	r.knock("late", "wait")
	r.enter("last")
	close(g)
	r.expect("late", frame.Reset)
}

// TestSilentRegistry: if the registry does not answer whether a harness may connect, the handshake
// fails after a timeout.
func TestSilentRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &link{control: make(chan frame.Frame, controlQueue)}
		v := newExecutorConn(t.Context(), NewExecutor(ExecutorOptions{Identity: identity(), Validate: told(judge)}), l, where)
		defer v.end()
		asked := time.Now()
		v.receive(frame.Frame{StreamID: "x", Kind: frame.Handshake, Payload: message1(t, identity().PublicKey(), channelOf("x"), "wait")})
		f := <-l.control
		if waited := time.Since(asked); f.StreamID != "x" || f.Kind != frame.Reset || waited != 10*time.Second {
			t.Errorf("%v of %q after %v", f.Kind, f.StreamID, waited)
		}
		v.wg.Wait()
		if v.failures != 1 || v.validating != 0 || len(v.claims) > 0 {
			t.Errorf("%d failures, %d questions, %d claims", v.failures, v.validating, len(v.claims))
		}
	})
}

// TestNoRoomForAnAnswer: if there is no space for an answer, the executor closes the connection.
// Otherwise the harness would wait for the answer in vain.
func TestNoRoomForAnAnswer(t *testing.T) {
	l, r := newLink(t, 0)
	l.close() // nothing is written any more
	for l.push(resetOf("y", reasonExecutor)) {
	}
	l = &link{ws: l.ws, control: l.control, closing: make(chan struct{}), slots: make(chan struct{})}
	e := NewExecutor(ExecutorOptions{Identity: identity(), Validate: yes, Serve: func(c wire.Transport) { _, _ = c.ReadMessage() }})
	v := newExecutorConn(t.Context(), e, l, where)
	defer v.end()
	v.receive(frame.Frame{StreamID: "x", Kind: frame.Handshake, Payload: message1(t, identity().PublicKey(), channelOf("x"), "please")})
	select {
	case <-l.closing:
		l.force.Stop()
	case <-time.After(patience):
		t.Error("the connection goes on")
	}
	e.endStreams(errAborted)
	v.wg.Wait()
	e.wg.Wait()
	r.ended()
}

// TestUnsendableIDs: frames with such ids are dropped and not counted. A stream whose frames cannot
// be answered would only occupy a slot.
func TestUnsendableIDs(t *testing.T) {
	r, _ := meet(t, ExecutorOptions{Serve: echo, Validate: told(func(context.Context, string, noise.PublicKey, string) error {
		t.Error("the registry is asked")
		return nil
	})})
	ids := []string{" x", "x\n", strings.Repeat("x", frame.MaxStreamID+1), strings.Repeat("x", 200<<10)}
	for _, id := range slices.Repeat(ids, warnFailures) {
		// The id is field 2, and the payload is field 1 of field 10. Each is preceded by its
		// length.
		payload := message1(t, identity().PublicKey(), channelOf(id), "please")
		if err := r.ws.WriteMessage(websocket.BinaryMessage, rawHandshake(id, payload)); err != nil {
			t.Fatal(err)
		}
	}
	r.data("unknown", 0, []byte("x"))
	r.expect("unknown", frame.Reset)
}

// TestFloodLeavesRoom: while nothing is written, a stranger causes more resets
// than are sent. There must still be space for the answers to others.
func TestFloodLeavesRoom(t *testing.T) {
	l, _ := newLink(t, 0)
	l.close() // nothing is written any more
	v := newExecutorConn(t.Context(), NewExecutor(ExecutorOptions{}), l, where)
	defer v.end()
	for range 2 * controlQueue {
		v.receive(frame.Frame{StreamID: "x", Kind: frame.Data, Payload: []byte("x")})
	}
	if n := len(l.control); n != controlOffer {
		t.Errorf("%d frames wait", n)
	}
	if !l.push(frame.Frame{StreamID: "y", Kind: frame.Handshake, Payload: []byte("x")}) {
		t.Error("there is no room for an answer")
	}
}

// TestHeldRecordsAreBounded: a harness that is known to acknowledge sends small
// records to a stream that nobody reads.
func TestHeldRecordsAreBounded(t *testing.T) {
	streams := make(chan *stream, 1)
	r, _ := meet(t, ExecutorOptions{Serve: func(c wire.Transport) {
		s := c.(*streamConn).s
		streams <- s
		<-s.ended
	}})
	session := r.enter("a")
	s := <-streams
	r.send(frame.Frame{StreamID: "a", Kind: frame.Heartbeat})
	for seq := range uint32(inboxMessages) {
		r.data("a", seq, seal(t, session, framed(hello)))
	}
	for seq := range uint32(heldRecords) {
		r.data("a", inboxMessages+seq, []byte("x"))
		r.data("a", inboxMessages+seq, []byte("y")) // takes up nothing
	}
	r.data("unknown", 0, []byte("x")) // behind all that
	r.expect("unknown", frame.Reset)
	s.mu.Lock()
	if len(s.held) != heldRecords || len(s.inbox) != inboxMessages || s.err != nil {
		t.Errorf("%d records and %d messages are held, %v", len(s.held), len(s.inbox), s.err)
	}
	s.mu.Unlock()
	r.data("a", inboxMessages+heldRecords, []byte("x"))
	r.expect("a", frame.Reset)
}

// TestWaitRoom: a harness with a full inbox stops reading its websocket before it has no space left
// for further records. It does so whether the executor acknowledges or not: an executor that
// acknowledges may not know yet that the harness does too.
func TestWaitRoom(t *testing.T) {
	for name, tt := range map[string]struct {
		inbox, held, size int
		acking, wait      bool
	}{
		"room in the inbox":              {inboxMessages - 1, 0, 0, false, false},
		"none":                           {inboxMessages, 0, 0, false, true},
		"but beside it":                  {inboxMessages, 0, 0, true, false},
		"the last record beside it":      {inboxMessages, heldRecords - 1, 1, true, false},
		"no record more":                 {inboxMessages, heldRecords, 1, true, true},
		"room for the largest beside it": {inboxMessages, 1, heldBytes - maxRecord, true, false},
		"none for the largest, but for smaller ones": {inboxMessages, 1, heldBytes - maxRecord + 1, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStream("a", nil, frame.Options{Harness: true}, nil, func(*stream, *link, error) {})
				if tt.acking {
					if err := s.receive(frame.Frame{StreamID: "a", Kind: frame.Heartbeat}); err != nil {
						t.Fatal(err)
					}
				}
				s.inbox, s.held, s.heldSize = make([][]byte, tt.inbox), make([]frame.Frame, tt.held), tt.size
				done := make(chan struct{})
				go func() { s.waitRoom(); close(done) }()
				synctest.Wait()
				select {
				case <-done:
					if tt.wait {
						t.Error("it reads on")
					}
				default:
					if !tt.wait {
						t.Error("it waits")
					}
				}
				s.end(errAborted)
				<-done
			})
		})
	}
}

// TestForgedControl forges control frames for an active stream, as the relay
// could. The stream continues, and no record is lost or duplicated.
func TestForgedControl(t *testing.T) {
	r, _ := meet(t, ExecutorOptions{Serve: echo})
	s := r.enter("a")
	seq := uint32(0)
	for _, kind := range []frame.Kind{frame.Heartbeat, frame.Ack, frame.Resume} {
		for _, ack := range []frame.Frame{
			{AckBits: 1}, {Ack: 0, AckBits: 1<<32 - 1}, {Ack: 1<<32 - 1, AckBits: 1<<32 - 1}, {Ack: 1<<32 - 1}, {Ack: seq + 1}, {},
		} {
			ack.StreamID, ack.Kind, ack.Seq = "a", kind, 1<<32-1
			r.send(ack)
			r.data("a", seq, seal(t, s, framed(hello)))
			for {
				f := r.get()
				if f.StreamID != "a" || f.Kind == frame.Reset {
					t.Fatalf("after %+v: %v", ack, f.Kind)
				}
				if f.Kind != frame.Data || f.Seq < seq {
					continue // an answer to the resume, and the retransmitted frames
				}
				if plaintext, err := s.Open(nil, f.Payload); err != nil || f.Seq != seq || string(plaintext) != string(framed(hello)) {
					t.Fatalf("after %+v: record %d: %q, %v", ack, f.Seq, plaintext, err)
				}
				break
			}
			seq++
		}
	}
}

// TestReplays sends message 1 of a stream again, as the relay could. An authorization can be used
// only once. Even without that rule, a party without the keys can neither decrypt the answer nor
// insert a record of the earlier stream.
func TestReplays(t *testing.T) {
	for _, once := range []bool{true, false} {
		t.Run(fmt.Sprintf("the authorization is good once: %v", once), func(t *testing.T) {
			asked := 0
			r, _ := meet(t, ExecutorOptions{Serve: echo, Validate: told(func(context.Context, string, noise.PublicKey, string) error {
				if asked++; once && asked > 1 {
					return errRejected
				}
				return nil
			})})
			initiator, message, err := noise.NewInitiator(identity(), identity().PublicKey(), channelOf("a"), []byte("please"))
			if err != nil {
				t.Fatal(err)
			}
			r.shake("a", message)
			session, err := initiator.Finish(r.expect("a", frame.Handshake).Payload)
			if err != nil {
				t.Fatal(err)
			}
			record := seal(t, session, framed(hello))
			r.data("a", 0, record)
			r.expect("a", frame.Data)
			r.shake("a", message) // while the stream exists
			r.expect("a", frame.Reset)
			r.shake("b", message) // as another
			r.expect("b", frame.Reset)
			r.send(resetOf("a", "forged"))
			r.shake("a", message)
			if once {
				r.expect("a", frame.Reset)
				return
			}
			r.expect("a", frame.Handshake)
			r.data("a", 0, record)
			r.expect("a", frame.Reset)
		})
	}
}
