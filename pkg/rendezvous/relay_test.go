package rendezvous

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/internal/atomicfile"
	"codex.internal/pkg/relay/frame"
)

func TestRouting(t *testing.T) { everywhere(t, testRouting) }

func testRouting(t *testing.T, start starter) {
	s := start(t, Options{})
	x := s.executor("env")
	a, b := s.harness("env"), s.harness("env")

	a.send(frame.Frame{StreamID: "a", Kind: frame.Resume})
	x.want("a", frame.Resume, "")
	a.send(handshake("a", "1"))
	x.want("a", frame.Handshake, "1")
	b.send(handshake("b", "2"))
	x.want("b", frame.Handshake, "2")
	x.send(handshake("b", "3"))
	b.want("b", frame.Handshake, "3")
	x.send(data("a", 0, "4"))
	a.want("a", frame.Data, "4")

	// A harness cannot send on a stream of another harness.
	b.send(data("a", 0, "stolen"))
	b.want("a", frame.Reset, resetStreamTaken)
	// Frames of a stream that no harness has claimed are dropped.
	x.send(data("nobody", 0, "x"))
	// A stream that does not exist cannot be resumed.
	a.send(data("unknown", 0, "x"))
	a.want("unknown", frame.Reset, resetUnknownStream)

	// Either end can reset a stream, and its id can be used again.
	x.send(reset("a", "why"))
	a.want("a", frame.Reset, "why")
	a.send(data("a", 1, "late"))
	a.want("a", frame.Reset, resetUnknownStream)
	a.send(handshake("a", "5"))
	x.want("a", frame.Handshake, "5")
	a.send(reset("a", "harness_closed"))
	x.want("a", frame.Reset, "harness_closed")
	b.send(handshake("a", "6"))
	x.want("a", frame.Handshake, "6")

	// If a harness vanishes, none of its streams remains.
	_ = b.ws.Close()
	gone := map[string]bool{}
	for range 2 {
		f, err := x.next()
		if err != nil || f.Kind != frame.Reset || f.Reason != resetHarnessGone {
			t.Fatalf("got f %+v, error %v; want no error, f.Kind %v, f.Reason %v", f, err, frame.Reset, resetHarnessGone)
		}
		gone[f.StreamID] = true
	}
	if !gone["a"] || !gone["b"] {
		t.Errorf("got %v, want true", gone)
	}
	// When the executor disconnects, its harnesses are notified.
	_ = x.ws.Close()
	a.wantClosed(websocket.CloseServiceRestart)
}

func TestNoFrames(t *testing.T) { everywhere(t, testNoFrames) }

func testNoFrames(t *testing.T, start starter) {
	s := start(t, Options{})
	x := s.executor("env")
	a := s.harness("env")
	for _, message := range [][]byte{nil, []byte("no frame"), encode(t, handshake("s", "x"))[:4]} {
		for _, p := range []*peer{a, x} {
			if err := p.ws.WriteMessage(websocket.BinaryMessage, message); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := a.ws.WriteMessage(websocket.TextMessage, encode(t, handshake("s", "text"))); err != nil {
		t.Fatal(err)
	}
	a.send(handshake("s", "good"))
	x.want("s", frame.Handshake, "good")
	x.send(data("s", 0, "back"))
	a.want("s", frame.Data, "back")
	invalid := s.metrics.dropped.With(dropInvalid).Get()
	if s.far != s {
		invalid += s.far.metrics.dropped.With(dropInvalid).Get()
	}
	if invalid != 7 {
		t.Errorf("%d messages were dropped", invalid)
	}
	// The test sends a frame of the largest size, and one that is a byte larger.
	payload := bytes.Repeat([]byte{'x'}, MaxFrame)
	message := func(size int) []byte {
		head := append([]byte{0x12, 1, 's', 0x2a}, binary.AppendUvarint(nil, uint64(size))...)
		b := append(head, payload[:size]...)
		return b
	}
	fits := MaxFrame - len(message(MaxFrame)) + MaxFrame
	if err := a.ws.WriteMessage(websocket.BinaryMessage, message(fits)); err != nil {
		t.Fatal(err)
	}
	if _, got, err := x.ws.ReadMessage(); err != nil || len(got) != MaxFrame {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if err := a.ws.WriteMessage(websocket.BinaryMessage, message(fits+1)); err != nil {
		t.Fatal(err)
	}
	a.wantClosed(websocket.CloseMessageTooBig)
	x.want("s", frame.Reset, resetHarnessGone)
}

// A peer that closes the websocket properly gets an answer. Without an answer, libraries that wait
// for it report an abnormal end (1006).
func TestCloseIsAnswered(t *testing.T) { everywhere(t, testCloseIsAnswered) }

func testCloseIsAnswered(t *testing.T, start starter) {
	s := start(t, Options{})
	x := s.executor("env")
	for _, p := range []*peer{s.harness("env"), x} {
		bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "done")
		if err := p.ws.WriteMessage(websocket.CloseMessage, bye); err != nil {
			t.Fatal(err)
		}
		p.wantClosed(websocket.CloseNormalClosure)
	}
}

func TestNewestExecutorWins(t *testing.T) { everywhere(t, testNewestExecutorWins) }

func testNewestExecutorWins(t *testing.T, start starter) {
	s := start(t, Options{})
	bundle := s.register("env")
	former := s.dial(bundle.URL)
	a := s.harness("env")
	a.send(handshake("s", "1"))
	former.want("s", frame.Handshake, "1")
	newer := s.dial(bundle.URL)
	former.wantClosed(websocket.ClosePolicyViolation)
	a.wantClosed(websocket.CloseServiceRestart)
	b := s.harness("env")
	b.send(handshake("s", "2"))
	newer.want("s", frame.Handshake, "2")
}

func TestNewRegistrationTakesOver(t *testing.T) { everywhere(t, testNewRegistrationTakesOver) }

func testNewRegistrationTakesOver(t *testing.T, start starter) {
	s := start(t, Options{})
	first := s.register("env")
	old := s.dial(first.URL)
	a := s.harness("env")
	a.send(handshake("a", "1"))
	old.want("a", frame.Handshake, "1")
	second := s.register("env")
	if second.ExecutorRegistrationID == first.ExecutorRegistrationID {
		t.Fatal("the registration is the same")
	}
	x := s.dial(second.URL)
	// Harnesses that are connected stay with the old executor. New ones connect to the newest.
	b := s.harness("env")
	b.send(handshake("b", "2"))
	x.want("b", frame.Handshake, "2")
	a.send(data("a", 0, "3"))
	old.want("a", frame.Data, "3")
	_ = old.ws.Close()
	a.wantClosed(websocket.CloseServiceRestart)
	eventually(t, func() bool { return refused(t, first.URL) == "404 unknown_registration" })
}

func TestHarnessComesBackToItsStream(t *testing.T) { everywhere(t, testHarnessComesBackToItsStream) }

func testHarnessComesBackToItsStream(t *testing.T, start starter) {
	s := start(t, Options{})
	x := s.executor("env")
	a := s.harness("env")
	a.send(handshake("s", "1"))
	x.want("s", frame.Handshake, "1")
	// The relay does not know yet that a has disconnected.
	again := s.harness("env")
	again.send(frame.Frame{StreamID: "s", Kind: frame.Resume, Seq: 1})
	x.want("s", frame.Resume, "")
	x.send(data("s", 0, "2"))
	again.want("s", frame.Data, "2")
	a.send(data("s", 1, "late"))
	a.want("s", frame.Reset, resetStreamTaken)
	// Another harness cannot do that.
	other := s.dial(s.connect("env", makeKey()).URL)
	other.send(frame.Frame{StreamID: "s", Kind: frame.Resume, Seq: 1})
	other.want("s", frame.Reset, resetStreamTaken)
	// Nor can a harness with another token, which only claims to have the key.
	mine := s.token
	s.token, _ = newToken(t, s.tokens, RoleHarness, "*")
	liar := s.harness("env")
	s.token = mine
	liar.send(frame.Frame{StreamID: "s", Kind: frame.Resume, Seq: 1})
	liar.want("s", frame.Reset, resetStreamTaken)
}

// Streams whose ends acknowledge wait for a harness that has disconnected. Either the harness
// resumes them with the same key, or they are reset.
func TestResumableStreamsWait(t *testing.T) { everywhere(t, testResumableStreamsWait) }

func testResumableStreamsWait(t *testing.T, start starter) {
	s := start(t, Options{ResumeTime: 3 * time.Second})
	x := s.executor("env")
	key := makeKey()
	join := func() *peer { return s.dial(s.connect("env", key).URL) }
	ack := func(stream string) frame.Frame {
		return frame.Frame{StreamID: stream, Kind: frame.Ack}
	}
	a := join()
	for _, stream := range []string{"both", "theirs"} {
		a.send(handshake(stream, "1"))
		x.want(stream, frame.Handshake, "1")
		x.send(ack(stream))
		a.want(stream, frame.Ack, "")
	}
	a.send(ack("both"))
	x.want("both", frame.Ack, "")
	_ = a.ws.Close()
	x.want("theirs", frame.Reset, resetHarnessGone)
	// Another harness cannot claim the stream; this one can.
	b := s.harness("env")
	b.send(frame.Frame{StreamID: "both", Kind: frame.Resume})
	b.want("both", frame.Reset, resetStreamTaken)
	a = join()
	a.send(frame.Frame{StreamID: "both", Kind: frame.Resume, Seq: 3})
	x.want("both", frame.Resume, "")
	x.send(data("both", 0, "on"))
	a.want("both", frame.Data, "on")
	// The harness does not reconnect in time.
	_ = a.ws.Close()
	x.want("both", frame.Reset, resetHarnessGone)
	a = join()
	a.send(data("both", 1, "late"))
	a.want("both", frame.Reset, resetUnknownStream)
}

// TestManyStreams: many harnesses talk to an echoing executor at the same time.
func TestManyStreams(t *testing.T) { everywhere(t, testManyStreams) }

func testManyStreams(t *testing.T, start starter) {
	s := start(t, Options{})
	x := s.executor("env")
	const harnesses, streams, frames = 8, 8, 40
	var echoing, wg sync.WaitGroup
	echoing.Go(func() {
		for {
			_, message, err := x.ws.ReadMessage()
			if err != nil {
				return
			}
			if err := x.ws.WriteMessage(websocket.BinaryMessage, message); err != nil {
				return
			}
		}
	})
	for i := range harnesses {
		h := s.harness("env")
		random := rand.New(rand.NewPCG(uint64(i), 0))
		var want [streams][]string
		for j := range streams { // not all at once: see environmentOpening
			id := fmt.Sprintf("%d-%d", i, j)
			h.send(handshake(id, "x"))
			h.want(id, frame.Handshake, "x")
		}
		wg.Go(func() {
			for n := range frames {
				for j := range streams {
					f := data(fmt.Sprintf("%d-%d", i, j), n, strings.Repeat(string(rune('a'+j)), 1+random.IntN(5000)))
					want[j] = append(want[j], string(f.Payload))
					h.send(f)
				}
			}
			for range frames * streams {
				f, err := h.next()
				var id, j int
				if err == nil {
					_, err = fmt.Sscanf(f.StreamID, "%d-%d", &id, &j)
				}
				if err != nil || id != i || len(want[j]) == 0 || string(f.Payload) != want[j][0] {
					t.Errorf("harness %d: %v %v %v", i, f.StreamID, f.Seq, err)
					return
				}
				want[j] = want[j][1:]
			}
		})
	}
	wg.Wait()
	got := s.totals()
	if s.far != s {
		got.harnesses += s.far.totals().harnesses
	}
	if got != (totals{1, 1, harnesses, harnesses * streams}) {
		t.Errorf("got %+v, want totals{1, 1, harnesses, harnesses * streams}", got)
	}
	_ = x.ws.Close()
	echoing.Wait()
}

func TestDeadPeers(t *testing.T) { everywhere(t, testDeadPeers) }

func testDeadPeers(t *testing.T, start starter) {
	const ping = 500 * time.Millisecond
	s := start(t, Options{PingInterval: ping})
	x := s.executor("env")
	a, b := s.harness("env"), s.harness("env")
	a.send(handshake("a", "1"))
	b.send(handshake("b", "1"))
	var alive sync.WaitGroup
	alive.Go(func() { a.wantClosed(websocket.CloseServiceRestart) })
	seen := map[string]bool{}
	for range 2 {
		f, err := x.next() // reading, the library answers pings
		if err != nil {
			t.Fatal(err)
		}
		seen[f.StreamID] = true
	}
	if !seen["a"] || !seen["b"] {
		t.Fatalf("got %v, want true", seen)
	}
	// b reads nothing, so it answers no ping. Its stream is reset, and a's stream is not.
	x.want("b", frame.Reset, resetHarnessGone)
	_ = x.ws.Close()
	alive.Wait()
	// The harness is counted after its executor was notified.
	eventually(t, func() bool { return s.far.metrics.silent.Get() > 0 })
}

func TestDeadExecutor(t *testing.T) { everywhere(t, testDeadExecutor) }

func testDeadExecutor(t *testing.T, start starter) {
	s := start(t, Options{PingInterval: 300 * time.Millisecond})
	s.executor("env") // reads nothing
	bundle := s.connect("env", identity())
	a := s.dial(bundle.URL)
	a.wantClosed(websocket.CloseServiceRestart)
	eventually(t, func() bool { return refused(t, bundle.URL) == "503 environment_offline" })
	if got := s.far.post(s.token, "/cloud/environment/env/connect", `{"harness_public_key":`+keyText(identity())+`}`); got.Error.Code != "environment_offline" {
		t.Errorf(`got %s, want got.Error.Code "environment_offline"`, got.body)
	}
}

// TestStalledHarness: a harness that reads nothing is disconnected, and another harness gets all
// its messages.
func TestStalledHarness(t *testing.T) { everywhere(t, testStalledHarness) }

func testStalledHarness(t *testing.T, start starter) {
	s := start(t, Options{WriteTimeout: time.Second})
	x := s.executor("env")
	stalled, good := s.harness("env"), s.harness("env")
	stalled.send(handshake("stalled", "x"))
	x.want("stalled", frame.Handshake, "x")
	good.send(handshake("good", "x"))
	x.want("good", frame.Handshake, "x")
	const frames = 400 // 24 MB: more than all buffers hold
	payload := strings.Repeat("p", 60<<10)
	var sending sync.WaitGroup
	sending.Go(func() {
		for i := range frames {
			x.send(data("stalled", i, payload))
			if i%10 == 0 {
				x.send(data("good", i/10, payload))
			}
		}
	})
	for range frames / 10 {
		good.want("good", frame.Data, payload)
	}
	sending.Wait()
	x.want("stalled", frame.Reset, resetHarnessGone)
}

func TestRevokedTokenLosesItsSockets(t *testing.T) { everywhere(t, testRevokedTokenLosesItsSockets) }

func testRevokedTokenLosesItsSockets(t *testing.T, start starter) {
	s := start(t, Options{PingInterval: 300 * time.Millisecond})
	x := s.executor("env")
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			if _, err := x.next(); err != nil {
				return
			}
		}
	})
	secret, token := newToken(t, s.tokens, RoleHarness, "env")
	a := s.far.post(secret, "/cloud/environment/env/connect", `{"harness_public_key":`+keyText(identity())+`}`)
	h := s.dial(a.URL)
	if _, err := s.tokens.Revoke(context.Background(), token.ID); err != nil {
		t.Fatal(err)
	}
	h.wantClosed(websocket.ClosePolicyViolation)
	if got := refused(t, a.URL); got != "401 invalid_token" {
		t.Errorf(`got %s, want "401 invalid_token"`, got)
	}
	_ = x.ws.Close()
	reading.Wait()
}

// TestChangedTokenLosesItsSockets: if a token's permissions change, its client is disconnected. Its
// former URL becomes invalid, and it cannot continue a stream that the executor has admitted with
// the former permissions.
func TestChangedTokenLosesItsSockets(t *testing.T) { everywhere(t, testChangedTokenLosesItsSockets) }

func testChangedTokenLosesItsSockets(t *testing.T, start starter) {
	s := start(t, Options{PingInterval: 300 * time.Millisecond})
	x := s.executor("env")
	secret, _, err := s.tokens.Create(t.Context(), TokenSpec{Role: RoleRun, Environments: []string{"env"}})
	if err != nil {
		t.Fatal(err)
	}
	connect := func() answer {
		return s.far.post(secret, "/cloud/environment/env/connect", `{"harness_public_key":`+keyText(identity())+`}`)
	}
	before := connect()
	h := s.dial(before.URL)
	h.send(handshake("s", "1"))
	x.want("s", frame.Handshake, "1")
	for _, end := range [][2]*peer{{x, h}, {h, x}} {
		end[0].send(frame.Frame{StreamID: "s", Kind: frame.Ack})
		end[1].want("s", frame.Ack, "")
	}
	text, err := os.ReadFile(s.tokens.Path())
	if err == nil {
		err = atomicfile.Write(s.tokens.Path(), bytes.Replace(text, []byte(`"role": "run"`), []byte(`"role": "read"`), 1))
	}
	if err != nil {
		t.Fatal(err)
	}
	h.wantClosed(websocket.ClosePolicyViolation)
	if got := refused(t, before.URL); got != "401 invalid_token" {
		t.Errorf(`the former URL: got %s, want "401 invalid_token"`, got)
	}
	h = s.dial(connect().URL)
	h.send(frame.Frame{StreamID: "s", Kind: frame.Resume, Seq: 1})
	h.want("s", frame.Reset, resetStreamTaken)
}

func TestShutdownTells(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	s := start(t, Options{})
	bundle := s.register("env")
	x := s.dial(bundle.URL)
	h := s.harness("env")
	var telling sync.WaitGroup
	telling.Go(func() { x.wantClosed(websocket.CloseGoingAway) })
	telling.Go(func() {
		// The executor may end first.
		_, err := h.next()
		if !websocket.IsCloseError(err, websocket.CloseGoingAway, websocket.CloseServiceRestart) {
			t.Errorf("got error %v, want the close code of a service that ends", err)
		}
		_ = h.ws.Close()
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	telling.Wait()
	if got := s.get("/readyz").Code; got != http.StatusServiceUnavailable {
		t.Errorf("ready: %d", got)
	}
	w := s.get(strings.TrimPrefix(bundle.URL, strings.Replace(s.url, "http", "ws", 1)), "Connection", "upgrade", "Upgrade", "websocket")
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "shutting_down") {
		t.Errorf(`got w.Code %d, w.Body %s; want w.Code %d, w.Body with "shutting_down"`, w.Code, w.Body, http.StatusServiceUnavailable)
	}
}
