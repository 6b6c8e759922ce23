package rendezvous

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/relay/frame"
)

// TestHostileHarness: one harness of an environment misbehaves while another has a stream. None of
// its frames reach the executor or disturb that stream. If an offence does not end the offender's
// connection, the connection can still be used.
func TestHostileHarness(t *testing.T) {
	raw := func(p *peer, kind int, message []byte) {
		p.t.Helper()
		if err := p.ws.WriteMessage(kind, message); err != nil {
			p.t.Fatal(err)
		}
	}
	wire := func(p *peer, b ...byte) {
		p.t.Helper()
		if _, err := p.ws.NetConn().Write(b); err != nil {
			p.t.Fatal(err)
		}
	}
	// message encodes a frame that no end would send, because its id is not checked.
	message := func(id string) []byte {
		return append(append([]byte{8, 1, 18, byte(len(id))}, id...), 0x52, 3, 10, 1, 'x')
	}
	const (
		stays = 0
		left  = 1 // the harness is gone, and the executor learns that its stream has ended
	)
	for name, tt := range map[string]struct {
		attack func(a *peer)
		closed int // with which code it ends; or it stays, or has left
	}{
		"frames on the stream of another": {func(a *peer) {
			for kind := frame.Data; kind <= frame.Heartbeat; kind++ {
				a.send(frame.Frame{StreamID: "s", Kind: kind, Payload: []byte("x"), Reason: "x", Seq: 1<<32 - 1, Ack: 1<<32 - 1, AckBits: 1<<32 - 1})
				a.want("s", frame.Reset, resetStreamTaken)
			}
		}, stays},
		"a flood of frames on no stream, without reading": {func(a *peer) {
			for range 4 * SourceReplies {
				a.send(data("none", 0, "x"))
			}
			for n := range SourceReplies { // at least as many are answered
				if f, err := a.next(); err != nil || f.StreamID != "none" || f.Reason != resetUnknownStream {
					a.t.Fatalf("answer %d: %+v, %v", n, f, err)
				}
			}
		}, stays},
		"control frames on no stream": {func(a *peer) {
			for _, kind := range []frame.Kind{frame.Reset, frame.Ack, frame.Heartbeat} {
				if a.send(frame.Frame{StreamID: "none", Kind: kind, Reason: "\x1b[2J"}); kind != frame.Reset {
					a.want("none", frame.Reset, resetUnknownStream)
				}
			}
		}, stays},
		"resets that executors drop": {func(a *peer) {
			a.send(handshake("kept", "x"))
			raw(a, websocket.BinaryMessage, []byte("\x08\x01\x12\x04kept\x42\x00"))
			raw(a, websocket.BinaryMessage, []byte("\x08\x02\x12\x04kept\x42\x03\x0a\x01r"))
			_ = a.ws.Close()
		}, left},
		"a second handshake": {func(a *peer) {
			a.send(handshake("kept", "x"))
			a.send(handshake("kept", "y"))
			a.want("kept", frame.Reset, resetStreamTaken)
			_ = a.ws.Close()
		}, left},
		"ids that others refuse": {func(a *peer) {
			for _, id := range []string{"", " ", " s", "s\n", "\xff", strings.Repeat("s", 127) + "\u00a0"} {
				raw(a, websocket.BinaryMessage, message(id))
			}
			raw(a, websocket.BinaryMessage, append(append([]byte{8, 1, 18, 129, 1}, strings.Repeat("s", 129)...), 0x52, 3, 10, 1, 'x'))
		}, stays},
		"text and what is no frame": {func(a *peer) {
			raw(a, websocket.TextMessage, message("t"))
			raw(a, websocket.BinaryMessage, nil)
			raw(a, websocket.BinaryMessage, bytes.Repeat([]byte{0xff}, MaxFrame))
			raw(a, websocket.BinaryMessage, bytes.Repeat([]byte{0x0b}, 100_000)) // groups in groups
		}, stays},
		"a flood of pings": {func(a *peer) {
			for range 2000 {
				if err := a.ws.WriteControl(websocket.PingMessage, []byte("x"), time.Now().Add(patience)); err != nil {
					a.t.Fatal(err)
				}
			}
		}, stays},
		"a message in fragments that is too large": {func(a *peer) {
			w, err := a.ws.NextWriter(websocket.BinaryMessage)
			if err != nil {
				a.t.Fatal(err)
			}
			_, _ = w.Write(make([]byte, MaxFrame+64<<10)) // it is cut off in the middle
		}, websocket.CloseMessageTooBig},
		"a frame that announces too much":         {func(a *peer) { wire(a, 0x82, 0xff, 0x7f, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0) }, websocket.CloseMessageTooBig},
		"a frame that nothing hides from proxies": {func(a *peer) { wire(a, 0x82, 1, 'x') }, websocket.CloseProtocolError},
		"a frame that is compressed":              {func(a *peer) { wire(a, 0xc2, 0x81, 0, 0, 0, 0, 'x') }, websocket.CloseProtocolError},
		"a continuation of nothing":               {func(a *peer) { wire(a, 0x80, 0x81, 0, 0, 0, 0, 'x') }, websocket.CloseProtocolError},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, Options{})
			x, b := s.executor("env"), s.harness("env")
			b.send(handshake("s", "1"))
			x.want("s", frame.Handshake, "1")
			a := s.dial(s.connect("env", makeKey()).URL)
			tt.attack(a)
			switch tt.closed {
			case left:
				x.want("kept", frame.Handshake, "x")
				x.want("kept", frame.Reset, resetHarnessGone)
			case stays:
				a.send(handshake("a", "2"))
				x.want("a", frame.Handshake, "2")
			default:
				a.wantClosed(tt.closed)
			}
			b.send(data("s", 0, "3"))
			x.want("s", frame.Data, "3")
			x.send(data("s", 0, "4"))
			b.want("s", frame.Data, "4")
		})
	}
}

// TestHostileExecutor: an executor sends frames for streams that no harness has opened, and
// messages that are not frames. The harnesses get only their own frames.
func TestHostileExecutor(t *testing.T) {
	s := start(t, Options{})
	x, a, b := s.executor("env"), s.harness("env"), s.harness("env")
	other := s.executor("other")
	c := s.harness("other")
	for id, p := range map[string]*peer{"a": a, "b": b} {
		p.send(handshake(id, "1"))
		x.want(id, frame.Handshake, "1")
	}
	c.send(handshake("c", "1"))
	other.want("c", frame.Handshake, "1")
	for range 2000 {
		x.send(data("none", 0, "x"))
		x.send(reset("c", "not its own"))
	}
	for _, message := range [][]byte{nil, {0xff}, bytes.Repeat([]byte{0x0b}, 100_000)} {
		if err := x.ws.WriteMessage(websocket.BinaryMessage, message); err != nil {
			t.Fatal(err)
		}
	}
	x.send(reset("a", "\x1b[2J")) // ignored by the receiving end
	x.send(data("a", 0, "late"))
	x.send(data("b", 0, "2"))
	a.want("a", frame.Reset, "\x1b[2J")
	b.want("b", frame.Data, "2")
	other.send(data("c", 0, "3"))
	c.want("c", frame.Data, "3")
	a.send(handshake("a", "4"))
	x.want("a", frame.Handshake, "4")
	x.send(data("a", 0, "5"))
	a.want("a", frame.Data, "5")
	if err := x.ws.WriteMessage(websocket.BinaryMessage, make([]byte, MaxFrame+1)); err != nil {
		t.Fatal(err)
	}
	a.wantClosed(websocket.CloseServiceRestart)
	b.wantClosed(websocket.CloseServiceRestart)
}
