package rendezvous

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/relay/frame"
	wire "codex.internal/pkg/wire/websocket"
)

// TestLastFramesGoOut: the socket ends while earlier frames are being collected.
func TestLastFramesGoOut(t *testing.T) {
	box := NewMailbox(SourceBytes)
	for _, m := range []Message{
		{Kind: Frame, From: "x", Data: encode(t, data("s", 0, "last"))},
		{Kind: Frame, From: "x", Data: encode(t, reset("s", "why"))},
		{Kind: Gone, From: "x"},
	} {
		if _, err := box.Put(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	serving.Add(1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer serving.Done()
		ws, err := wire.Upgrade(w, r, wire.Options{Ping: patience, WriteTimeout: patience}, nil)
		if err != nil {
			t.Error(err)
			return
		}
		s := &socket{ws: ws, check: patience}
		if err := s.run(t.Context(), box, &harness{socket: s}); err != closeExecutorGone {
			t.Errorf("got error %v, want %v", err, closeExecutorGone)
		}
	}))
	defer srv.Close()
	ws, _, err := websocket.DefaultDialer.Dial(strings.Replace(srv.URL, "http", "ws", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t, ws}
	p.want("s", frame.Data, "last")
	p.want("s", frame.Reset, "why")
	p.wantClosed(websocket.CloseServiceRestart)
}

// TestPingOfSlowPeer: a harness that reads nothing for a while sends a ping. The answer must not
// use up the time limit for writes to the harness.
func TestPingOfSlowPeer(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	s := start(t, Options{WriteTimeout: patience})
	x, h := s.executor("env"), s.harness("env")
	h.send(handshake("s", "x"))
	x.want("s", frame.Handshake, "x")
	const frames = 400 // 24 MB: more than all buffers hold
	payload := strings.Repeat("p", 60<<10)
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() {
		for i := range frames {
			x.send(data("s", i, payload))
		}
	})
	account := s.environments.find("env")
	var before uint64
	still := 0
	eventually(t, func() bool { // the writer is stuck and the mailbox full
		_, now, _ := account.down.meter.read(time.Now())
		if still++; now != before || now == 0 {
			before, still = now, 0
		}
		return still == 20 // the pauses between the checks have grown to 50 ms
	})
	if err := h.ws.WriteControl(websocket.PingMessage, []byte("x"), time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	<-time.After(closeTime + closeTime/4) // the answer could have failed
	for i := range frames {
		if f, err := h.next(); err != nil || f.Seq != uint32(i) {
			t.Fatalf("frame %d: %d, %v", i, f.Seq, err)
		}
	}
}
