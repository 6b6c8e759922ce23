package relay

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/relay/frame"
	wire "codex.internal/pkg/wire/websocket"
)

// TestFirstRefusal: the harness asks for another bundle after the first refusal, but not after a
// later one.
func TestFirstRefusal(t *testing.T) {
	d := newDouble(t)
	d.Run(t, ExecutorOptions{Serve: echo})
	for refused, dials := range map[int]int64{1: 2, 2: 2} {
		d.dials.Store(0)
		d.refuse = refused
		h := d.harness(HarnessOptions{})
		c, err := h.Dial(t.Context())
		var dialErr *wire.DialError
		switch {
		case refused == 1 && err == nil:
			_ = c.Close()
		case refused == 2 && errors.As(err, &dialErr) && dialErr.Status == 401 && !strings.Contains(err.Error(), "role"):
		default:
			t.Errorf("%d refused: %v", refused, err)
		}
		if n := d.dials.Load(); n != dials {
			t.Errorf("%d refused: dialed %d times", refused, n)
		}
	}
}

// TestHandshakeTexts: the relay sends wrong answers to a harness's handshake.
func TestHandshakeTexts(t *testing.T) {
	frameOf := func(f frame.Frame) func(*remote, string) {
		return func(r *remote, id string) {
			f.StreamID = id
			r.send(frame.Frame{StreamID: "another", Kind: frame.Reset, Reason: "x"}) // skipped
			r.send(frame.Frame{StreamID: id, Kind: frame.Heartbeat})                 // skipped
			r.send(f)
		}
	}
	raw := func(kind int, message string) func(*remote, string) {
		return func(r *remote, _ string) { _ = r.ws.WriteMessage(kind, []byte(message)) }
	}
	for want, answer := range map[string]func(*remote, string){
		"Noise relay stream reset":                                                               frameOf(frame.Frame{Kind: frame.Reset, Reason: "the peer's text"}),
		"Noise relay received data before handshake completion":                                  frameOf(frame.Frame{Kind: frame.Data, Payload: []byte("x")}),
		"Noise relay handshake failed: Noise channel handshake failed: Received invalid message": frameOf(frame.Frame{Kind: frame.Handshake, Payload: []byte("x")}),
		"Noise relay handshake failed: Noise channel handshake failed: Cipher error":             frameOf(frame.Frame{Kind: frame.Handshake, Payload: make([]byte, 3424)}),
		"Noise relay transport expects binary protobuf frames":                                   raw(websocket.TextMessage, "x"),
		"failed to parse Noise relay frame: invalid relay message frame":                         raw(websocket.BinaryMessage, "\xff"),
		"Noise relay websocket received close frame during handshake":                            raw(websocket.CloseMessage, "\x03\xe8"),
		"Noise relay websocket ended during handshake":                                           func(r *remote, _ string) { _ = r.ws.NetConn().Close() },
	} {
		t.Run(want, func(t *testing.T) {
			checkLeaks(t)
			url, accepted := acceptor(t)
			h := (&double{url: url}).harness(HarnessOptions{Connect: func(context.Context) (Bundle, error) {
				return Bundle{Registration: Registration{URL: url}, ExecutorKey: identity().PublicKey()}, nil
			}})
			failed := make(chan error, 1)
			go func() {
				_, err := h.Dial(t.Context())
				failed <- err
			}()
			r := next(t, accepted)
			resume := r.get()
			if resume.Kind != frame.Resume || resume.Seq != 0 {
				t.Errorf("first comes %v", resume.Kind)
			}
			r.expect(resume.StreamID, frame.Handshake)
			answer(r, resume.StreamID)
			err := <-failed
			if err == nil || !strings.HasPrefix(err.Error(), want) || !retryable(err) {
				t.Errorf("got error %v; want an error beginning with %q, retryable(err)", err, want)
			}
		})
	}
}

// TestBothEndsTakeTheirDialer: both ends use the dialer in their options, for the first connection
// and for later ones.
func TestBothEndsTakeTheirDialer(t *testing.T) {
	d := newDouble(t)
	var executors, harnesses atomic.Int64
	counted := func(n *atomic.Int64) dialContext {
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			n.Add(1)
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	}
	d.Run(t, ExecutorOptions{Serve: echo, DialContext: counted(&executors)})
	h := d.harness(HarnessOptions{DialContext: counted(&harnesses)})
	for range 2 {
		d.awaitExecutor(t)
		if err := exchange(dial(t, h), message(0, 1)); err != nil {
			t.Fatal(err)
		}
		d.cut(1)
	}
	if x, h := executors.Load(), harnesses.Load(); x < 2 || h < 2 {
		t.Errorf("the executor's was called %d times, the harness's %d times", x, h)
	}
}

// TestDialHeedsItsContext ends the context of a Dial that gets no answer.
func TestDialHeedsItsContext(t *testing.T) {
	checkLeaks(t)
	url, accepted := acceptor(t)
	h := NewHarness(HarnessOptions{Identity: identity(), Connect: func(context.Context) (Bundle, error) {
		return Bundle{Registration: Registration{URL: url}, ExecutorKey: identity().PublicKey()}, nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := h.Dial(ctx)
		failed <- err
	}()
	r := next(t, accepted)
	id := r.get().StreamID
	r.expect(id, frame.Handshake)
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
	// If the answer arrives after the end of the context, no unused stream is left.
	if f := r.get(); f.StreamID != id || f.Kind != frame.Reset {
		t.Errorf("the executor is told %v", f.Kind)
	}
}
