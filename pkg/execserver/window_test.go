package execserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"codex.internal/pkg/host/process"
	"codex.internal/pkg/testutil"
)

func TestAcknowledgementsNeedAHandshake(t *testing.T) {
	_, url := newTestServer(t, Options{})
	p := dial(t, url)
	refuse := func(text string, code int, want string) {
		t.Helper()
		p.text(text)
		m := p.answer("-1")
		if m.Error == nil || m.Error.Code != code || !strings.Contains(m.Error.Message, want) {
			t.Errorf("%s: %+v, want %d %q", text, m.Error, code, want)
		}
	}
	const ack = `{"method":"process/ack","params":{"processId":"p","seq":1}}`
	refuse(ack, -32600, "client must call initialize before using exec methods")
	p.call("initialize", object{"clientName": "t"}, nil)
	refuse(ack, -32600, "client must send initialized before using exec methods")
	p.text(`{"method":"initialized"}`)
	refuse(`{"method":"process/ack"}`, -32602, "expected an object")
	refuse(`{"method":"process/ack","params":{"processId":"p"}}`, -32602, "missing field `seq`")
	refuse(`{"method":"process/ack","params":{"processId":"p","seq":-1}}`, -32602, "expected u64")
	p.refuse("process/ack", object{"processId": "p", "seq": 1}, -32601, "does not implement `process/ack`")
	// An unknown process, or one without a window, is not an error.
	p.text(ack)
	p.start("p", "head -c 300000 /dev/zero")
	p.text(ack)
	p.text(ack)
	if out, _ := p.closed("p"); len(out) != 300000 {
		t.Errorf("%d bytes", len(out))
	}
	for _, m := range p.held {
		if string(m.ID) == "-1" {
			t.Errorf("an acknowledgement was refused: %+v", m.Error)
		}
	}
}

// TestAcknowledgementBeforeTheStart: a client acknowledges all output while its process is
// starting. The process is then not held back.
func TestAcknowledgementBeforeTheStart(t *testing.T) {
	_, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	for i := range 20 {
		id := fmt.Sprint(i)
		p.send("process/start", startObject(id, "head -c 300000 /dev/zero", object{"outputWindow": 1}))
		p.text(fmt.Sprintf(`{"method":"process/ack","params":{"processId":%q,"seq":9007199254740991}}`, id))
		p.text(fmt.Sprintf(`{"method":"process/ack","params":{"processId":%q,"seq":3}}`, id))
		if out, _ := p.closed(id); len(out) != 300000 {
			t.Fatalf("%d bytes", len(out))
		}
	}
}

// TestHeldBackProcessesEnd: unacknowledged processes end with their session,
// and with the server.
func TestHeldBackProcessesEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	srv, url := newTestServer(t, Options{SessionTTL: -1, Process: process.Options{Cgroups: true}})
	var peers []*peer
	for range 2 {
		p, _ := hello(t, url)
		for _, tty := range []bool{false, true} {
			p.start(fmt.Sprint(tty), "yes", object{"outputWindow": 1, "tty": tty})
			p.wait(func(m message) bool { return m.Method == "process/output" })
		}
		peers = append(peers, p)
	}
	peers[0].ws.Close()
	testutil.Eventually(t.Context(), t, "one session", func() (string, bool) {
		srv.mu.Lock()
		n := len(srv.sessions)
		srv.mu.Unlock()
		return strconv.Itoa(n), n == 1
	})
}

// TestWindowSurvivesCuts: processes write to both streams, or to a terminal. Their client
// acknowledges at random, loses its connections or leaves them half dead, and resumes its
// session.
func TestWindowSurvivesCuts(t *testing.T) {
	seeds := testutil.Rounds[uint64](4, 6, 12)
	_, url := newTestServer(t, withCgroups())
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 3))
			n := 20_000 + rng.IntN(40_000)
			want, err := exec.Command("seq", fmt.Sprint(n)).Output()
			if err != nil {
				t.Fatal(err)
			}
			tty := seed%4 == 3
			script := fmt.Sprintf("seq %[1]d & seq %[1]d >&2; wait", n)
			if tty {
				script = fmt.Sprintf("seq %d", n)
			}
			w := &windowClient{t: t, url: url, rng: rng, window: process.MinWindow, text: map[string]*bytes.Buffer{}}
			var p *peer
			p, w.session = hello(t, url)
			p.start("p", script, object{"outputWindow": w.window, "tty": tty})
			w.drop(p)
			for !w.closed {
				w.connection()
			}
			for stream, text := range w.text {
				if got := strings.ReplaceAll(text.String(), "\r", ""); got != string(want) {
					t.Errorf("%s: %d bytes came, not the %d that were written", stream, len(got), len(want))
				}
			}
			if streams := map[bool]int{false: 2, true: 1}; len(w.text) != streams[tty] {
				t.Errorf("%d streams", len(w.text))
			}
		})
	}
}

// windowClient is a client of one process with a window.
type windowClient struct {
	t       testing.TB
	url     string
	rng     *rand.Rand
	session string
	window  int

	text   map[string]*bytes.Buffer
	seq    uint64 // number of the newest event
	acked  uint64
	onWay  []event // events without acknowledgement
	exited bool    // according to process/read
	passed bool    // seq has passed the number of the exit
	closed bool
	open   bool // the last connection was left open
}

// connection uses one connection until it ends.
func (w *windowClient) connection() {
	w.t.Helper()
	p := w.attach()
	w.ack(p, w.acked) // the last acknowledgement may have been lost
	w.catchUp(p)
	for n := w.rng.IntN(60); n > 0 && !w.closed; n-- {
		if w.unacked() >= w.window {
			w.ack(p, w.seq) // otherwise no more output would arrive
		} else if w.rng.IntN(4) == 0 {
			w.ack(p, w.rng.Uint64N(w.seq+1))
		}
		m := p.wait(func(m message) bool { return strings.HasPrefix(m.Method, "process/") })
		var e event
		if err := json.Unmarshal(m.Params, &e); err != nil {
			w.t.Fatal(err)
		}
		w.take(m.Method, e)
	}
	w.drop(p)
}

// attach resumes the session. It takes the session over, or waits until the previous connection
// has ended.
func (w *windowClient) attach() *peer {
	w.t.Helper()
	if w.open || w.rng.IntN(2) == 0 {
		return takeOver(w.t, w.url, w.session)
	}
	p := dial(w.t, w.url)
	p.resume(w.session)
	p.text(`{"method":"initialized"}`)
	return p
}

// drop closes a connection, or leaves it open so that the server has to notice its end.
func (w *windowClient) drop(p *peer) {
	if w.open = w.rng.IntN(4) == 0; !w.open {
		p.ws.Close()
	}
}

// catchUp reads the unacknowledged output. The server must have all of it.
func (w *windowClient) catchUp(p *peer) {
	w.t.Helper()
	var r struct {
		Chunks         []event
		Exited, Closed bool
	}
	p.call("process/read", object{"processId": "p", "afterSeq": w.acked}, &r)
	sum := 0
	for _, e := range r.Chunks {
		sum += len(e.Chunk)
	}
	if sum >= w.window+process.MaxChunk {
		w.t.Errorf("%d bytes are not acknowledged, the window is %d", sum, w.window)
	}
	w.exited = r.Exited
	for _, e := range r.Chunks {
		w.take("process/output", e)
	}
	w.closed = r.Closed
}

// take adds an event. Numbers may skip one event, the exit, which process/read does not return
// as output.
func (w *windowClient) take(method string, e event) {
	w.t.Helper()
	if e.Seq <= w.seq {
		return
	}
	switch gap := e.Seq - w.seq - 1; {
	case gap == 1 && w.exited && !w.passed:
		w.passed = true
	case gap != 0:
		w.t.Fatalf("event %d after %d", e.Seq, w.seq)
	}
	w.seq = e.Seq
	switch method {
	case "process/exited":
		w.passed = true
	case "process/closed":
		w.closed = true
	default:
		if w.text[e.Stream] == nil {
			w.text[e.Stream] = new(bytes.Buffer)
		}
		w.text[e.Stream].Write(e.Chunk)
		w.onWay = append(w.onWay, e)
		if sum := w.unacked(); sum >= w.window+process.MaxChunk {
			w.t.Errorf("%d bytes are not acknowledged, the window is %d", sum, w.window)
		}
	}
}

func (w *windowClient) unacked() int {
	sum := 0
	for _, e := range w.onWay {
		sum += len(e.Chunk)
	}
	return sum
}

// ack sends an acknowledgement. It records the number before, so that the check is never too
// strict.
func (w *windowClient) ack(p *peer, seq uint64) {
	w.t.Helper()
	w.acked = max(w.acked, seq)
	for len(w.onWay) > 0 && w.onWay[0].Seq <= w.acked {
		w.onWay = w.onWay[1:]
	}
	p.text(fmt.Sprintf(`{"method":"process/ack","params":{"processId":"p","seq":%d}}`, seq))
}

// BenchmarkOutput measures the cost of a process's output from its pipe to a client, which
// acknowledges after each quarter of the window.
func BenchmarkOutput(b *testing.B) {
	const size = 64 << 20
	_, url := newTestServer(b, withCgroups())
	for _, window := range []int{0, process.MaxWindow} {
		b.Run(fmt.Sprintf("window=%dK", window>>10), func(b *testing.B) {
			p, _ := hello(b, url)
			b.SetBytes(size)
			for b.Loop() {
				drain(b, p, fmt.Sprintf("head -c %d /dev/zero", size), window)
			}
		})
	}
}

var benchmarked int

// drain runs a script and receives its output. It counts frames without parsing
// them, so that only the server's cost is measured.
func drain(b *testing.B, p *peer, script string, window int) {
	b.Helper()
	benchmarked++
	id := fmt.Sprint(benchmarked)
	p.send("process/start", startObject(id, script, object{"outputWindow": window}))
	seq, unacked := 0, 0
	for {
		_, text, err := p.ws.ReadMessage()
		if err != nil {
			b.Fatal(err)
		}
		switch {
		case bytes.HasPrefix(text, []byte(`{"method":"process/output"`)):
			seq++
			unacked += len(text) * 3 / 4
			if window > 0 && unacked >= window/4 {
				p.text(fmt.Sprintf(`{"method":"process/ack","params":{"processId":%q,"seq":%d}}`, id, seq))
				unacked = 0
			}
		case bytes.HasPrefix(text, []byte(`{"method":"process/closed"`)):
			return
		}
	}
}
