package execserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"codex.internal/pkg/testutil"
	wire "codex.internal/pkg/wire/websocket"
	"github.com/gorilla/websocket"
)

// takeOver resumes a session, even if the session is attached to another connection.
func takeOver(t testing.TB, url, session string) *peer {
	t.Helper()
	p := dial(t, url)
	var r struct{ SessionID string }
	p.call("initialize", object{"clientName": "t", "resumeSessionId": session, "takeOver": true}, &r)
	if r.SessionID != session {
		t.Fatalf("session %q was resumed as %q", session, r.SessionID)
	}
	p.text(`{"method":"initialized"}`)
	return p
}

// awaitConns waits until a server has n connections.
func awaitConns(t *testing.T, srv *Server, n int) {
	t.Helper()
	testutil.Eventually(t.Context(), t, fmt.Sprintf("%d connections", n), func() (string, bool) {
		srv.mu.Lock()
		conns := srv.conns
		srv.mu.Unlock()
		return strconv.Itoa(conns), conns == n
	})
}

func TestTakeOverEndsTheOtherConnection(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	srv, url := newTestServer(t, withCgroups())
	p, session := hello(t, url)
	p.start("p", "read x; echo got $x", object{"pipeStdin": true})
	p.send("process/read", object{"processId": "p", "waitMs": 3_600_000})
	other := dial(t, url)
	other.refuse("initialize", object{"clientName": "t", "resumeSessionId": session}, -32010, "already attached")
	other.refuse("initialize", object{"clientName": "t", "resumeSessionId": session, "takeOver": false}, -32010, "already attached")
	other.refuse("initialize", object{"clientName": "t", "resumeSessionId": "none", "takeOver": true}, -32600, "unknown session id none")
	q := takeOver(t, url, session)
	if code, reason := p.closing(); code != wire.ClosePolicyViolation || reason != "session was resumed on another connection" {
		t.Errorf("closed with %d %q", code, reason)
	}
	awaitConns(t, srv, 2) // the long poll has ended too
	q.call("process/write", object{"processId": "p", "chunk": "eAo=", "writeId": "1"}, nil)
	if out, code := q.closed("p"); out != "got x\n" || code != 0 {
		t.Errorf("%q, exit code %d", out, code)
	}
	q.ws.Close()
	other.ws.Close()
	awaitConns(t, srv, 0)
	takeOver(t, url, session).call("process/read", object{"processId": "p"}, nil)
}

func TestTakeOverWithoutASession(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	_, url := newTestServer(t, Options{})
	_, session := hello(t, url)
	var r struct{ SessionID string }
	dial(t, url).call("initialize", object{"clientName": "t", "takeOver": true}, &r)
	if r.SessionID == "" || r.SessionID == session {
		t.Errorf("session %q", r.SessionID)
	}
}

// TestTakeOverFromAHalfDeadConnection: a connection does not read, and all buffers between it
// and the processes are full. Another connection takes the session over. It must not wait for
// the first connection, and must miss no output.
func TestTakeOverFromAHalfDeadConnection(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	srv, url := newTestServer(t, withCgroups())
	want, err := exec.Command("seq", "300000").Output()
	if err != nil {
		t.Fatal(err)
	}
	p, session := hello(t, url)
	if tcp, ok := p.ws.NetConn().(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(64 << 10)
	}
	p.start("seq", "exec seq 300000", object{"outputWindow": 512 << 10})
	p.start("yes", "exec yes")
	awaitFull(t, srv, session)

	begin := time.Now()
	q := takeOver(t, url, session)
	if took := time.Since(begin); took >= flushTime {
		t.Errorf("the other connection was waited for: %v", took)
	}
	q.call("process/terminate", object{"processId": "yes"}, nil)
	got := &collector{}
	got.consume(q, "seq")
	if string(got.out) != string(want) {
		t.Errorf("%d bytes came, not the %d that were written", len(got.out), len(want))
	}
	// The first connection received only messages from before the takeover.
	for {
		_, text, err := p.ws.ReadMessage()
		if err != nil {
			break
		}
		var m message
		var e event
		if json.Unmarshal(text, &m) == nil && json.Unmarshal(m.Params, &e) == nil && e.ProcessID == "seq" && e.Seq >= got.first {
			t.Fatalf("both connections were told event %d", e.Seq)
		}
	}
	awaitConns(t, srv, 1)
}

// awaitFull waits until the queue of a session's connection is full.
func awaitFull(t *testing.T, srv *Server, session string) {
	t.Helper()
	srv.mu.Lock()
	out := srv.sessions[session].attached().out
	srv.mu.Unlock()
	testutil.Eventually(t.Context(), t, "a full queue", func() (string, bool) {
		out.mu.Lock()
		n := len(out.queue)
		out.mu.Unlock()
		return fmt.Sprintf("%d bytes", n), n >= queueBytes
	})
}

// collector is a client's view of one process: the output that process/read returns for the
// time before the connection, and the later notifications. It acknowledges all of them.
type collector struct {
	out   []byte
	seq   uint64 // number of the newest event in out
	first uint64 // number of the first notification
}

// consume reads a process to its end.
func (c *collector) consume(p *peer, id string) {
	p.t.Helper()
	c.catchUp(p, id)
	for {
		var e event
		m := p.wait(func(m message) bool {
			e = event{}
			return strings.HasPrefix(m.Method, "process/") && json.Unmarshal(m.Params, &e) == nil && e.ProcessID == id
		})
		if c.first == 0 {
			c.first = e.Seq
		}
		c.take(p, e)
		if m.Method == "process/closed" {
			return
		}
		c.ack(p, id)
	}
}

// take adds an event, unless process/read has returned it.
func (c *collector) take(p *peer, e event) {
	p.t.Helper()
	if e.Seq > c.seq+1 {
		p.t.Fatalf("event %d after %d", e.Seq, c.seq)
	}
	if e.Seq == c.seq+1 {
		c.seq = e.Seq
		c.out = append(c.out, e.Chunk...)
	}
}

// catchUp reads the events from the time before the connection.
func (c *collector) catchUp(p *peer, id string) {
	p.t.Helper()
	var r struct{ Chunks []event }
	p.call("process/read", object{"processId": id, "afterSeq": c.seq}, &r)
	for _, e := range r.Chunks {
		c.take(p, e)
	}
	c.ack(p, id)
}

func (c *collector) ack(p *peer, id string) {
	p.t.Helper()
	p.text(fmt.Sprintf(`{"method":"process/ack","params":{"processId":%q,"seq":%d}}`, id, c.seq))
}

// TestNothingIsHandledAfterATakeOver: a client writes as fast as it can. Another client takes
// its session over and writes different data. After that, no data of the first client is
// written.
func TestNothingIsHandledAfterATakeOver(t *testing.T) {
	_, url := newTestServer(t, Options{})
	for range 10 {
		p, session := hello(t, url)
		p.start("p", "exec cat", object{"pipeStdin": true})
		var flood sync.WaitGroup
		begun := make(chan struct{})
		flood.Go(func() {
			for i := 0; ; i++ {
				if i == 100 {
					close(begun)
				}
				if p.ws.WriteMessage(websocket.TextMessage, []byte(`{"id":9,"method":"process/write","params":{"processId":"p","chunk":"YQ=="}}`)) != nil {
					return
				}
			}
		})
		<-begun
		q := takeOver(t, url, session)
		q.call("process/write", object{"processId": "p", "chunk": base64.StdEncoding.EncodeToString([]byte("b"))}, nil)
		q.call("process/closeStdin", object{"processId": "p"}, nil)
		got := &collector{}
		got.consume(q, "p")
		if out := strings.TrimLeft(string(got.out), "a"); out != "b" {
			t.Fatalf("after the last of the first client's bytes: %q", out)
		}
		p.ws.Close()
		flood.Wait()
	}
}

// TestOfManyTakeOversOneHolds: several connections take a session from each other at the same
// time. One of them has it in the end.
func TestOfManyTakeOversOneHolds(t *testing.T) {
	srv, url := newTestServer(t, withCgroups())
	p, session := hello(t, url)
	p.start("p", "exec cat", object{"pipeStdin": true})
	peers := make([]*peer, 16)
	var wg sync.WaitGroup
	for i := range peers {
		peers[i] = dial(t, url)
		wg.Go(func() {
			text := `{"id":1,"method":"initialize","params":{"clientName":"t","resumeSessionId":"` + session + `","takeOver":true}}`
			if err := peers[i].ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	awaitConns(t, srv, 1)
	q := takeOver(t, url, session)
	q.call("process/closeStdin", object{"processId": "p"}, nil)
	if _, code := q.closed("p"); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
