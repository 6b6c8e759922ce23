package relay

import (
	"context"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/relay/noise"
)

// guest is a harness. The test acts as its executor and as the relay in between.
type guest struct {
	*remote
	t        *testing.T
	accepted chan *remote
	conn     *Conn
	id       string
	session  *noise.Session // the executor's
}

// invite makes a harness open a stream.
func invite(t *testing.T) *guest {
	t.Helper()
	checkLeaks(t)
	url, accepted := acceptor(t)
	h := (&double{url: url}).harness(HarnessOptions{Connect: func(context.Context) (Bundle, error) {
		r := where
		r.URL = url
		return Bundle{Registration: r, ExecutorKey: identity().PublicKey(), Authorization: "please"}, nil
	}})
	dialed := make(chan error, 1)
	g := &guest{t: t, accepted: accepted}
	go func() {
		var err error
		g.conn, err = h.Dial(t.Context())
		dialed <- err
	}()
	g.remote = next(t, accepted)
	g.id = g.get().StreamID // of the resume
	responder, err := noise.NewResponder(identity(), channelOf(g.id), g.expect(g.id, frame.Handshake).Payload)
	if err != nil {
		t.Fatal(err)
	}
	message2, session, err := responder.Finish()
	if err != nil {
		t.Fatal(err)
	}
	g.session = session
	g.shake(g.id, message2)
	if err := <-dialed; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.conn.Close() })
	if first, err := session.Open(nil, g.expect(g.id, frame.Data).Payload); err != nil || len(first) > 0 {
		t.Fatalf("the first record: got %q, error %v; want an empty one", first, err)
	}
	return g
}

// raw sends a message that need not be a frame.
func (g *guest) raw(kind int, message ...byte) { _ = g.ws.WriteMessage(kind, message) }

// TestHostileExecutor sends a harness frames that end its stream. The harness
// reports the reason in its own words, after all messages that came before.
func TestHostileExecutor(t *testing.T) {
	const unexpected = "Noise relay received invalid post-handshake frame"
	for name, tt := range map[string]struct {
		send func(g *guest)
		want string
	}{
		"a reset":             {func(g *guest) { g.send(resetOf(g.id, "\x1b[2J")) }, "Noise relay stream reset"},
		"another handshake":   {func(g *guest) { g.shake(g.id, make([]byte, 3424)) }, unexpected},
		"an invalid frame":    {func(g *guest) { g.raw(websocket.BinaryMessage, append([]byte{8, 1, 18, 36}, g.id...)...) }, unexpected},
		"another version":     {func(g *guest) { g.raw(websocket.BinaryMessage, append([]byte{8, 2, 18, 36}, g.id...)...) }, unexpected},
		"text":                {func(g *guest) { g.raw(websocket.TextMessage, 'x') }, "Noise relay transport expects binary protobuf frames"},
		"no frame":            {func(g *guest) { g.raw(websocket.BinaryMessage, 255) }, "failed to parse Noise relay frame: invalid relay message frame"},
		"a forged record":     {func(g *guest) { g.data(g.id, 1, make([]byte, 40)) }, "Noise channel transport failed: Cipher error: Decrypt error"},
		"a record far ahead":  {func(g *guest) { g.data(g.id, 66, make([]byte, 40)) }, "Noise relay ciphertext exceeds reorder window"},
		"a record too long":   {func(g *guest) { g.data(g.id, 1, seal(g.t, g.session, make([]byte, noise.MaxChunk+1))) }, "Noise relay plaintext record exceeds maximum length"},
		"an empty message":    {func(g *guest) { g.data(g.id, 1, seal(g.t, g.session, make([]byte, 4))) }, "Noise relay JSON-RPC message has invalid length"},
		"a message too long":  {func(g *guest) { g.data(g.id, 1, seal(g.t, g.session, []byte{4, 0, 0, 1})) }, "Noise relay JSON-RPC message has invalid length"},
		"its own record back": {func(g *guest) { g.data(g.id, 1, g.expect(g.id, frame.Data).Payload) }, "Noise channel transport failed: Cipher error: Decrypt error"},
	} {
		t.Run(name, func(t *testing.T) {
			g := invite(t)
			if err := g.conn.Write([]byte(hello)); err != nil {
				t.Fatal(err)
			}
			g.data(g.id, 0, seal(t, g.session, framed(hello)))
			// None of these texts concerns the stream or gives the reason for its end.
			g.send(resetOf("another", "x"))
			g.data("another", 0, []byte("x"))
			g.shake("another", []byte("x"))
			g.raw(websocket.BinaryMessage, 8, 2)
			for _, kind := range []frame.Kind{frame.Ack, frame.Resume, frame.Heartbeat} {
				g.send(frame.Frame{StreamID: g.id, Kind: kind, Seq: 1<<32 - 1, Ack: 1<<32 - 1, AckBits: 1<<32 - 1})
			}
			tt.send(g)
			if got, err := g.conn.Read(); err != nil || string(got) != hello {
				t.Fatalf("got %q, error %v; want no error, %q", got, err, hello)
			}
			got, err := g.conn.Read()
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.ContainsRune(err.Error(), 0x1b) {
				t.Errorf("%q, %v, want %s", got, err, tt.want)
			}
			if again := g.conn.Write([]byte(hello)); again != err {
				t.Errorf("a write says %v", again)
			}
			g.ended()
		})
	}
}

// TestOversizeMessage ends the websocket of a harness and nothing more: the
// stream of an executor that acknowledges continues over the next websocket.
func TestOversizeMessage(t *testing.T) {
	g := invite(t)
	if err := g.conn.Write([]byte(hello)); err != nil {
		t.Fatal(err)
	}
	g.expect(g.id, frame.Data)
	g.send(frame.Frame{StreamID: g.id, Kind: frame.Ack})
	awaitAcking(t, g.conn)
	g.raw(websocket.BinaryMessage, make([]byte, frame.MaxFrame+1)...)
	g.ended()
	g.remote = next(t, g.accepted)
	g.expect(g.id, frame.Resume)
	g.data(g.id, 0, seal(t, g.session, framed(hello)))
	if got, err := g.conn.Read(); err != nil || string(got) != hello {
		t.Errorf("got %q, error %v; want no error, %q", got, err, hello)
	}
}
