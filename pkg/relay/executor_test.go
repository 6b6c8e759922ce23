package relay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/internal/tokens"
	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/testutil/leakcheck"
	wire "codex.internal/pkg/wire/websocket"
)

// patience is how long tests wait for an event that must come.
const patience = 20 * time.Second

var where = Registration{EnvironmentID: "env-1", RegistrationID: "registration-1"}

// identity creates one identity for all these tests, because they do not test identities.
var identity = sync.OnceValue(func() *noise.Identity {
	id, err := noise.GenerateIdentity()
	if err != nil {
		panic(err)
	}
	return id
})

func yes(context.Context, string, noise.PublicKey, string) (*tokens.Grant, error) { return nil, nil }

// told makes an answer of the registry without a grant.
func told(answer func(context.Context, string, noise.PublicKey, string) error) func(context.Context, string, noise.PublicKey, string) (*tokens.Grant, error) {
	return func(ctx context.Context, registration string, harness noise.PublicKey, authorization string) (*tokens.Grant, error) {
		return nil, answer(ctx, registration, harness, authorization)
	}
}

// echo serves a stream by sending everything back.
func echo(c wire.Transport) {
	for {
		m, err := c.ReadMessage()
		if err != nil {
			return
		}
		frames := c.Seal(append(c.Open(nil), m.Bytes()...), 0)
		m.Release()
		if c.WriteFrames(frames) != nil {
			return
		}
	}
}

// checkLeaks fails the test if goroutines are left at its end.
func checkLeaks(t *testing.T) { t.Cleanup(leakcheck.Goroutines(t)) }

// runExecutor runs an executor, which does not pause between attempts, until the test ends.
func runExecutor(t *testing.T, url string, o ExecutorOptions) {
	t.Helper()
	o.Identity = identity()
	if o.Validate == nil {
		o.Validate = yes
	}
	if o.Register == nil {
		o.Register = func(context.Context) (Registration, error) {
			r := where
			r.URL = url
			return r, nil
		}
	}
	e := NewExecutor(o)
	e.pause = func(context.Context, time.Duration) error { return nil }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the executor goes on")
		}
	})
}

// TestWhatEndsAStream sends one invalid or excessive frame on an active stream. That must end this
// stream only.
func TestWhatEndsAStream(t *testing.T) {
	for name, send := range map[string]func(*remote, *noise.Session){
		"a forged record":      func(r *remote, _ *noise.Session) { r.data("a", 0, make([]byte, 40)) },
		"less than a tag":      func(r *remote, _ *noise.Session) { r.data("a", 0, make([]byte, 15)) },
		"a record far ahead":   func(r *remote, _ *noise.Session) { r.data("a", 65, make([]byte, 40)) },
		"the last of all":      func(r *remote, _ *noise.Session) { r.data("a", 1<<32-1, make([]byte, 40)) },
		"an empty message":     func(r *remote, s *noise.Session) { r.data("a", 0, seal(r.t, s, make([]byte, 4))) },
		"a message too long":   func(r *remote, s *noise.Session) { r.data("a", 0, seal(r.t, s, []byte{4, 0, 0, 1})) },
		"the longest length":   func(r *remote, s *noise.Session) { r.data("a", 0, seal(r.t, s, []byte{255, 255, 255, 255})) },
		"a record too long":    func(r *remote, s *noise.Session) { r.data("a", 0, seal(r.t, s, make([]byte, noise.MaxChunk+1))) },
		"text that is no JSON": func(r *remote, s *noise.Session) { r.data("a", 0, seal(r.t, s, framed("{"))) },
		"text with more":       func(r *remote, s *noise.Session) { r.data("a", 0, seal(r.t, s, framed(hello+hello))) },
		"text that is no text": func(r *remote, s *noise.Session) { r.data("a", 0, seal(r.t, s, framed("{\"method\":\"\xff\"}"))) },
		"an array":             func(r *remote, s *noise.Session) { r.data("a", 0, seal(r.t, s, framed("[]"))) },
		"a number":             func(r *remote, s *noise.Session) { r.data("a", 0, seal(r.t, s, framed("1"))) },
		"an empty object":      func(r *remote, s *noise.Session) { r.data("a", 0, seal(r.t, s, framed("{}"))) },
		"a record again, as the next": func(r *remote, s *noise.Session) {
			record := seal(r.t, s, framed(hello)[:4])
			r.data("a", 0, record)
			r.data("a", 1, record)
		},
		"a record of its own": func(r *remote, s *noise.Session) {
			r.data("a", 0, seal(r.t, s, framed(hello)))
			r.data("a", 1, r.expect("a", frame.Data).Payload)
		},
		"records in the wrong order": func(r *remote, s *noise.Session) {
			first, second := seal(r.t, s, nil), seal(r.t, s, nil)
			r.data("a", 1, first)
			r.data("a", 0, second)
		},
		"too many bytes ahead": func(r *remote, _ *noise.Session) {
			for seq := range uint32(17) {
				r.data("a", 1+seq, make([]byte, 1<<16-1))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := meet(t, ExecutorOptions{Serve: echo})
			other := r.enter("b")
			send(r, r.enter("a"))
			r.expect("a", frame.Reset)
			r.says("b", other, 0)
			r.says("a", r.enter("a"), 0) // the id is free again
		})
	}
}

// TestWhatIsAccepted sends everything that a peer may send, up to the limits.
func TestWhatIsAccepted(t *testing.T) {
	r, _ := meet(t, ExecutorOptions{Serve: echo})
	s := r.enter("a")
	text := framed(`{"method":"` + strings.Repeat("x", noise.MaxChunk) + `"}`)
	records := [][]byte{seal(t, s, text[:noise.MaxChunk]), seal(t, s, nil)}
	for i := range len(text) - noise.MaxChunk {
		records = append(records, seal(t, s, text[noise.MaxChunk+i:][:1])) // a byte each
	}
	for len(records) <= 64 {
		records = append(records, seal(t, s, nil))
	}
	for i := range slices.Backward(records) { // 64 that are admitted first, then all others
		r.data("a", uint32(i), records[i])
		r.data("a", uint32(i), make([]byte, 40)) // the first copy wins
	}
	var got []byte
	for range 3 { // one is empty, as the harness has sent some
		plaintext, err := s.Open(nil, r.expect("a", frame.Data).Payload)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, plaintext...)
	}
	if string(got) != string(text) {
		t.Errorf("%d bytes come back of %d", len(got), len(text))
	}
}

// TestWhatIsDropped sends frames that must have no effect.
func TestWhatIsDropped(t *testing.T) {
	r, _ := meet(t, ExecutorOptions{Serve: echo})
	s := r.enter("a")
	_ = r.ws.WriteMessage(websocket.TextMessage, []byte("text"))
	_ = r.ws.WriteMessage(websocket.BinaryMessage, []byte{0xff})
	_ = r.ws.WriteMessage(websocket.BinaryMessage, []byte{8, 2})
	r.send(frame.Frame{StreamID: "a", Kind: frame.Ack})
	r.send(frame.Frame{StreamID: "a", Kind: frame.Heartbeat})
	r.send(frame.Frame{StreamID: "a", Kind: frame.Ack, Ack: 7, AckBits: 7})
	r.send(frame.Frame{StreamID: "nobody's", Kind: frame.Reset, Reason: "x"})
	r.send(frame.Frame{StreamID: "nobody's", Kind: frame.Resume})
	r.says("a", s, 0)
	r.data("a", 0, make([]byte, 40)) // the first copy wins
	r.says("a", s, 1)
	r.knock("a", "again")
	r.expect("a", frame.Reset)
	r.says("a", s, 2) // the stream stays
}

// TestUnknownStreams: a peer that continues a stream that has ended is notified of the end. A
// stream that still waits for the registry's answer has not ended.
func TestUnknownStreams(t *testing.T) {
	g := make(gate)
	r, _ := meet(t, ExecutorOptions{Serve: echo, Validate: told(g.validate)})
	for _, f := range []frame.Frame{
		{Kind: frame.Data, Payload: make([]byte, 40)},
		{Kind: frame.Ack},
		{Kind: frame.Ack, Ack: 7, AckBits: 7},
		{Kind: frame.Heartbeat},
		{Kind: frame.Resume, Seq: 1},
	} {
		f.StreamID = "unknown"
		r.send(f)
		r.expect("unknown", frame.Reset)
	}
	r.knock("waits", "wait")
	for _, kind := range []frame.Kind{frame.Ack, frame.Heartbeat} {
		r.send(frame.Frame{StreamID: "waits", Kind: kind})
	}
	g <- struct{}{}
	r.expect("waits", frame.Handshake)
}

// TestFailedHandshakes: failed handshakes are refused. However many there are,
// the streams of other harnesses continue, and new ones can begin.
func TestFailedHandshakes(t *testing.T) {
	for name, fail := range map[string]func(*remote){
		"not readable": func(r *remote) {
			r.send(frame.Frame{StreamID: "x", Kind: frame.Handshake, Payload: []byte("hi")})
		},
		"authorization too long": func(r *remote) { r.knock("x", strings.Repeat("a", maxAuthorization+1)) },
		"authorization no text":  func(r *remote) { r.knock("x", "\xff") },
		"rejected":               func(r *remote) { r.knock("x", "no") },
		"a handshake before the end": func(r *remote) {
			r.knock("x", "wait")
			r.knock("x", "please")
		},
		"data before the end": func(r *remote) {
			r.knock("x", "wait")
			r.data("x", 0, make([]byte, 40))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := meet(t, ExecutorOptions{Serve: echo, Validate: told(judge)})
			other := r.enter("other")
			for range 3 * warnFailures {
				fail(r)
				r.expect("x", frame.Reset)
			}
			r.says("other", other, 0)
			r.says("another", r.enter("another"), 0)
		})
	}
}

// judge refuses "no" and does not answer to "wait".
func judge(ctx context.Context, registration string, _ noise.PublicKey, authorization string) error {
	if registration != where.RegistrationID {
		return fmt.Errorf("registration %q", registration)
	}
	switch authorization {
	case "no":
		return errors.New("no")
	case "wait":
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// TestSecondHandshake: a harness starts a second handshake before the registry has answered the
// first, and the answer arrives late.
func TestSecondHandshake(t *testing.T) {
	release := make(chan struct{})
	r, _ := meet(t, ExecutorOptions{Serve: echo, Validate: told(func(ctx context.Context, _ string, _ noise.PublicKey, a string) error {
		if a == "late" {
			<-release
		}
		return nil
	})})
	r.knock("a", "late")
	r.knock("a", "second")
	r.expect("a", frame.Reset)
	s := r.enter("a")
	close(release)
	r.says("a", s, 0)
	r.says("b", r.enter("b"), 0)
}

// TestLimits opens as many streams and makes as many requests to the registry as the limits permit,
// and one more of each.
func TestLimits(t *testing.T) {
	t.Run("streams", func(t *testing.T) {
		r, _ := meet(t, ExecutorOptions{Serve: echo})
		sessions := make([]*noise.Session, maxStreams)
		for i := range sessions {
			sessions[i] = r.enter(fmt.Sprint(i))
		}
		r.knock("more", "")
		r.expect("more", frame.Reset)
		for i, s := range sessions {
			r.says(fmt.Sprint(i), s, 0)
		}
		r.send(frame.Frame{StreamID: "7", Kind: frame.Reset, Reason: "done"})
		r.says("more", r.enter("more"), 0)
	})
	t.Run("validations", func(t *testing.T) {
		r, _ := meet(t, ExecutorOptions{Serve: echo, Validate: told(judge)})
		for i := range maxValidations {
			r.knock(fmt.Sprint(i), "wait")
		}
		r.knock("more", "yes")
		r.expect("more", frame.Reset)
	})
	t.Run("message of the websocket", func(t *testing.T) {
		r, accepted := meet(t, ExecutorOptions{Serve: echo})
		if err := r.ws.WriteMessage(websocket.BinaryMessage, make([]byte, frame.MaxFrame)); err != nil {
			t.Fatal(err) // no frame, but not too long
		}
		r.says("a", r.enter("a"), 0)
		if err := r.ws.WriteMessage(websocket.BinaryMessage, make([]byte, frame.MaxFrame+1)); err != nil {
			t.Fatal(err)
		}
		r.ended()
		next(t, accepted)
	})
}

// TestSlowStream sends messages to a stream that nobody reads. The peer does
// not acknowledge, so the stream is reset, and other streams are not delayed.
func TestSlowStream(t *testing.T) {
	r, _ := meet(t, ExecutorOptions{Serve: func(c wire.Transport) {
		if strings.HasSuffix(c.Peer(), "slow") {
			<-c.(*streamConn).s.ended
			return
		}
		echo(c)
	}})
	slow, quick := r.enter("slow"), r.enter("quick")
	for seq := range uint32(inboxMessages) {
		r.data("slow", seq, seal(t, slow, framed(hello)))
	}
	r.says("quick", quick, 0)
	r.data("slow", inboxMessages, seal(t, slow, framed(hello)))
	r.expect("slow", frame.Reset)
	r.says("quick", quick, 1)
}

// TestServeEnds: when Serve returns, the stream is reset after the written data.
func TestServeEnds(t *testing.T) {
	r, _ := meet(t, ExecutorOptions{Serve: func(c wire.Transport) {
		room := strings.Repeat("-", wire.FragmentRoom)
		part := strings.Repeat("x", 40_000)
		_ = c.Fragment([]byte(room+part), true, false)
		_ = c.Fragment([]byte(room+part), false, true)
		_ = c.Close(wire.CloseNormal, "not told")
	}})
	s := r.enter("a")
	var reader noise.MessageReader
	var got []byte
	for range 2 {
		plaintext, err := s.Open(nil, r.expect("a", frame.Data).Payload)
		if err != nil {
			t.Fatal(err)
		}
		if err := reader.Read(plaintext, func(m []byte) error { got = m; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if string(got) != strings.Repeat("x", 80_000) {
		t.Errorf("%d bytes", len(got))
	}
	r.expect("a", frame.Reset)
}

// TestLastFrameAcknowledges: the frame that ends a stream also acknowledges the received records.
func TestLastFrameAcknowledges(t *testing.T) {
	r, _ := meet(t, ExecutorOptions{Serve: echo})
	s := r.enter("a")
	r.says("a", s, 0)
	r.data("a", 1, seal(t, s, framed("no JSON")))
	if f := r.expect("a", frame.Reset); f.Ack != 1 || f.AckBits != 0 {
		t.Errorf("got %+v; want f.Ack 1, f.AckBits 0", f)
	}
}

// TestExecutorLoop makes connection attempts fail, and checks how the executor reacts.
func TestExecutorLoop(t *testing.T) {
	checkLeaks(t)
	answers := []int{401, 500, 404, 302, 500, 500, 0, 503, 0}
	var mu sync.Mutex
	var story []string
	tell := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		story = append(story, fmt.Sprintf(format, args...))
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		status := answers[0]
		answers = answers[1:]
		mu.Unlock()
		tell("dial %d", status)
		if status > 0 {
			w.WriteHeader(status)
			return
		}
		ws, err := new(websocket.Upgrader).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		_ = ws.Close()
	}))
	defer s.Close()
	last := errors.New("enough")
	registered := 0
	e := NewExecutor(ExecutorOptions{Identity: identity(), Validate: yes, Serve: echo, Register: func(context.Context) (Registration, error) {
		tell("register")
		switch registered++; registered {
		case 1:
			return Registration{URL: s.URL}, nil // an error that no websocket returns
		case 4: // a temporary failure: the old registration is still valid
			return Registration{}, &wire.DialError{Status: 503}
		case 5:
			return Registration{}, last
		}
		return Registration{URL: "ws" + strings.TrimPrefix(s.URL, "http")}, nil
	}})
	e.pause = func(_ context.Context, d time.Duration) error {
		tell("pause %v", d)
		mu.Lock()
		defer mu.Unlock()
		if len(answers) == 0 {
			answers = []int{403}
		}
		return nil
	}
	if err := e.Run(t.Context()); !errors.Is(err, last) {
		t.Errorf("Run: %v", err)
	}
	want := []string{
		"register", "register", "pause 1s", "dial 401", "register", "pause 2s", "dial 500", "pause 4s", "dial 404", "register", "pause 8s",
		"dial 302", "pause 16s", "dial 500", "pause 30s", "dial 500", "pause 30s", "dial 0", "pause 1s", "dial 503", "pause 2s", "dial 0", "pause 1s", "dial 403", "register",
	}
	if !slices.Equal(story, want) {
		t.Errorf("got  %q\nwant %q", story, want)
	}
}
