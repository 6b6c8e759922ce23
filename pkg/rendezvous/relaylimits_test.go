package rendezvous

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/relay/frame"
)

// TestSizes sends frames of all sizes that are handled differently, in both directions and faster
// than they are read.
func TestSizes(t *testing.T) { everywhere(t, testSizes) }

func testSizes(t *testing.T, start starter) {
	s := start(t, Options{})
	x := s.executor("env")
	h := s.harness("env")
	h.send(handshake("a", "1"))
	x.want("a", frame.Handshake, "1")
	const rounds = 20
	const largeFrame, writeBytes = 32 << 10, 64 << 10 // of the websockets
	sizes := []int{1, 60, largeFrame - 100, largeFrame, 61456, 1, 65535, 100, writeBytes / 3, writeBytes / 3, writeBytes / 3, writeBytes / 3}
	text := func(n int) string { return strings.Repeat(string(rune('a'+n%26)), sizes[n%len(sizes)]) }
	for _, way := range [][2]*peer{{x, h}, {h, x}} {
		from, to := way[0], way[1]
		var sending sync.WaitGroup
		sending.Go(func() {
			for n := range rounds * len(sizes) {
				message, err := (&frame.Frame{StreamID: "a", Kind: frame.Data, Seq: uint32(n), Payload: []byte(text(n))}).Append(nil)
				if err == nil {
					err = from.ws.WriteMessage(websocket.BinaryMessage, message)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
		for n := range rounds * len(sizes) {
			f, err := to.next()
			if err != nil || f.Seq != uint32(n) || string(f.Payload) != text(n) {
				t.Fatalf("frame %d: %d, %d bytes, %v", n, f.Seq, len(f.Payload), err)
			}
		}
		sending.Wait()
	}
}

func TestStreamLimit(t *testing.T) { everywhere(t, testStreamLimit) }

func testStreamLimit(t *testing.T, start starter) {
	s := start(t, Options{})
	x := s.executor("env")
	a, b := s.harness("env"), s.harness("env")
	for i := range environmentStreams / 2 { // a token's share
		a.open(x, fmt.Sprint(i))
	}
	b.send(handshake("more", "x"))
	b.want("more", frame.Reset, resetStreamLimit)
	a.send(reset("7", "done"))
	x.want("7", frame.Reset, "done")
	b.send(handshake("more", "x"))
	x.want("more", frame.Handshake, "x")
}

// TestExecutorLimit: a token that has too many connections is named, for the client and in the log.
func TestExecutorLimit(t *testing.T) {
	var log lockedBuffer
	s := start(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.Server.tokens.quota.sockets = 2
	first := s.executor("a")
	s.executor("b")
	url := s.register("c").URL
	_, res, err := websocket.DefaultDialer.Dial(url, nil)
	if err == nil || res == nil {
		t.Fatalf("got %v, want an answer", err)
	}
	body, _ := io.ReadAll(res.Body)
	for _, want := range []string{`"too_many_sockets"`, "with the token " + TokenID(s.token)} {
		if !strings.Contains(string(body), want) {
			t.Errorf("got %s, want %s", body, want)
		}
	}
	if want := "token=" + TokenID(s.token); !strings.Contains(log.String(), "code=too_many_sockets") || !strings.Contains(log.String(), want) {
		t.Errorf("got the log %s, want %s", log.String(), want)
	}
	_ = first.ws.Close()
	eventually(t, func() bool { return refused(t, url) == "accepted" })
}

func TestHarnessLimit(t *testing.T) { everywhere(t, testHarnessLimit) }

func testHarnessLimit(t *testing.T, start starter) {
	s := start(t, Options{})
	s.far.environments.quota.sockets = 4 // a token gets two of them
	s.executor("env")
	first := s.harness("env")
	s.harness("env")
	url := s.connect("env", identity()).URL
	if got := refused(t, url); got != "429 too_many_sockets" {
		t.Errorf(`got %s, want "429 too_many_sockets"`, got)
	}
	_ = first.ws.Close()
	eventually(t, func() bool { return refused(t, url) == "accepted" })
}
