package relay

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/relay/frame"
	wire "codex.internal/pkg/wire/websocket"
)

// newLink returns both ends of a link.
func newLink(t *testing.T, ping time.Duration) (*link, *remote) {
	t.Helper()
	checkLeaks(t)
	url, accepted := acceptor(t)
	l, err := dialLink(t.Context(), url, linkOptions{timeout: patience, ping: ping, log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l, next(t, accepted)
}

func TestLinkProbesAndAnswers(t *testing.T) {
	l, r := newLink(t, 50*time.Millisecond)
	go func() { _, _ = l.read() }() // ends with the link
	pinged, ponged := make(chan string, 1), make(chan string, 1)
	tell := func(c chan string) func(string) error {
		return func(data string) error {
			select {
			case c <- data:
			default:
			}
			return nil
		}
	}
	r.ws.SetPingHandler(tell(pinged))
	r.ws.SetPongHandler(tell(ponged))
	if err := r.ws.WriteControl(websocket.PingMessage, []byte("probe"), time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _, _ = r.ws.ReadMessage() }()
	if data := <-pinged; data != "" {
		t.Errorf("it probes with %q", data)
	}
	if data := <-ponged; data != "probe" {
		t.Errorf("it answers %q", data)
	}
}

// TestLinkClosesBehindWhatIsQueued: a link closes after the queued frames are written, even if the
// queue is full.
func TestLinkClosesBehindWhatIsQueued(t *testing.T) {
	l, r := newLink(t, 0)
	for seq := range uint32(recordQueue) {
		if !l.reserve(nil) {
			t.Fatal("no slot")
		}
		l.write(queued{Frame: frame.Frame{StreamID: "a", Kind: frame.Data, Seq: seq, Payload: []byte("x")}})
	}
	l.pushLast(resetOf("a", reasonHarness))
	l.close()
	for seq := range uint32(recordQueue) {
		if f := r.get(); f.Kind != frame.Data || f.Seq != seq {
			t.Fatalf("%v %d instead of record %d", f.Kind, f.Seq, seq)
		}
	}
	if f := r.get(); f.Kind != frame.Reset || f.Reason != "harness_closed" {
		t.Errorf("in the end %v", f.Kind)
	}
	if _, _, err := r.ws.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Errorf("then %v", err)
	}
	if l.reserve(nil) {
		t.Error("a slot of a link that is closed")
	}
}

// TestRecordsFollowTheirHandshake: records are written after their handshake, even if the writer
// finds both at the same time.
func TestRecordsFollowTheirHandshake(t *testing.T) {
	checkLeaks(t)
	url, accepted := acceptor(t)
	ws, err := wire.Dial(t.Context(), url, wire.DialOptions{Timeout: patience, Buffer: bufferSize})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Abort()
	r := next(t, accepted)
	l := &link{ws: ws, slots: make(chan struct{}, 1), records: make(chan queued, 1), control: make(chan frame.Frame, 2)}
	for i := range 20 {
		id := fmt.Sprint(i)
		l.push(frame.Frame{StreamID: id, Kind: frame.Handshake, Payload: []byte("x")})
		l.push(frame.Frame{StreamID: id, Kind: frame.Resume})
		l.reserve(nil)
		l.write(queued{Frame: frame.Frame{StreamID: id, Kind: frame.Data, Payload: []byte("x")}})
		for len(l.control)+len(l.records) > 0 {
			if err := l.writeNext(); err != nil {
				t.Fatal(err)
			}
		}
		r.expect(id, frame.Handshake)
		r.expect(id, frame.Resume)
		r.expect(id, frame.Data)
	}
}

// TestControlIsBounded: if the relay does not read, optional control frames are dropped.
func TestControlIsBounded(t *testing.T) {
	l, _ := newLink(t, 0)
	l.close() // nothing is written any more
	n := 0
	for l.push(resetOf("a", reasonHarness)) {
		n++
	}
	if n != controlQueue {
		t.Errorf("%d frames wait", n)
	}
}

func TestDialErrorsKeepTheQuerySecret(t *testing.T) {
	for url, again := range map[string]bool{
		"ws://127.0.0.1:1/?secret": true, "ws://127.0.0.1:1/#secret": true,
		"http://127.0.0.1/?secret": false, "ws://?secret": false, "%zz?secret": false, "ws://\x1b?secret": false,
	} {
		public := strings.ReplaceAll(url[:strings.IndexAny(url, "?#")], "\x1b", `\x1b`)
		_, err := dialLink(t.Context(), url, linkOptions{timeout: patience, log: slog.New(slog.DiscardHandler)})
		if err == nil || strings.Contains(err.Error(), "secret") || retryable(err) != again || !strings.HasPrefix(err.Error(), "failed to connect to exec-server websocket `"+public+"`: ") {
			t.Errorf(`%s: got error %v; want an error without "secret", retryable(err) %v, an error beginning with %q`, url, err, again, "failed to connect to exec-server websocket `"+public+"`: ")
		}
	}
}

// A relay that refuses the connection can send any text in the status line, so the error must not
// contain that text.
func TestRefusalInWordsOfOurOwn(t *testing.T) {
	checkLeaks(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 403 \x1b[2J"+r.URL.String()+"\r\nContent-Length: 0\r\n\r\n")
	}))
	defer s.Close()
	_, err := dialLink(t.Context(), "ws"+strings.TrimPrefix(s.URL, "http")+"/?secret", linkOptions{timeout: patience, log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.HasSuffix(err.Error(), ": the relay answered 403 Forbidden") {
		t.Errorf(`got error %q, want an error ending in ": the relay answered 403 Forbidden"`, err)
	}
}

// TestControlGoesBeforeLaterRecords queues the beginning of many streams and
// their first records, faster than they are written.
func TestControlGoesBeforeLaterRecords(t *testing.T) {
	l, r := newLink(t, 0)
	const streams = 2000
	payload := make([]byte, 1000)
	open := make(chan bool, 1)
	go func() {
		for i := range uint32(streams) {
			for !l.push(frame.Frame{StreamID: "a", Kind: frame.Resume, Seq: i}) {
				runtime.Gosched()
			}
			if !l.reserve(nil) {
				open <- false
				return
			}
			l.write(queued{Frame: frame.Frame{StreamID: "a", Kind: frame.Data, Seq: i, Payload: payload}})
		}
		open <- true
	}()
	begun := uint32(0)
	for data := uint32(0); data < streams; {
		switch f := r.get(); {
		case f.Kind == frame.Resume && f.Seq == begun:
			begun++
		case f.Kind == frame.Data && f.Seq == data && data < begun:
			data++
		default:
			t.Fatalf("%v %d behind %d beginnings and %d records", f.Kind, f.Seq, begun, data)
		}
	}
	if !<-open {
		t.Error("the link has closed")
	}
}

// TestControlGoesBeforeATakenRecord queues a control frame before a record that
// the writer has already taken.
func TestControlGoesBeforeATakenRecord(t *testing.T) {
	checkLeaks(t)
	url, accepted := acceptor(t)
	ws, err := wire.Dial(t.Context(), url, wire.DialOptions{Timeout: patience, Buffer: bufferSize})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Abort()
	r := next(t, accepted)
	l := &link{ws: ws, slots: make(chan struct{}, 1), control: make(chan frame.Frame, controlQueue), log: slog.New(slog.DiscardHandler)}
	l.push(frame.Frame{StreamID: "a", Kind: frame.Resume})
	l.reserve(nil)
	l.putRecord(queued{Frame: frame.Frame{StreamID: "a", Kind: frame.Data, Payload: []byte("x")}})
	l.flush()
	r.expect("a", frame.Resume)
	r.expect("a", frame.Data)
}
