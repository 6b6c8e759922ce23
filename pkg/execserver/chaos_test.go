package execserver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"codex.internal/pkg/testutil"
	"github.com/gorilla/websocket"
)

// TestChaos has many clients write to cat through connections that are cut
// after a random number of bytes in either direction, resume, and go on until
// everything has come back. Every byte must come once and in order, and in the
// end nothing may be left: newTestServer counts goroutines, this test
// descriptors and processes.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	clients := testutil.Rounds(30, 50, 200)
	srv, url := newTestServer(t, withCgroups())
	before := descriptors(t)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 20)
	for i := range clients {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			c := &survivor{url: url, rng: rand.New(rand.NewPCG(uint64(i), 7)), want: lines(i)}
			if err := c.run(); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t.Context(), t, fmt.Sprintf("at most the %d descriptors of before", before), func() (string, bool) {
		n := descriptors(t)
		return strconv.Itoa(n), n <= before
	})
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, task := range tasks {
		if children, _ := os.ReadFile(task); len(bytes.TrimSpace(children)) > 0 {
			t.Errorf("children are left: %s", children)
		}
	}
}

// lines is what a client sends: text that tells its place.
func lines(seed int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < 60_000; i++ {
		fmt.Fprintf(&b, "%d:%d:%s\n", seed, i, strings.Repeat("x", (seed+i)%97))
	}
	return b.Bytes()
}

// cutter is a connection that breaks after a number of bytes.
type cutter struct {
	net.Conn
	mu   sync.Mutex
	left int
}

func (c *cutter) spend(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left -= n
	return c.left > 0
}

func (c *cutter) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:min(len(b), 700)])
	if err == nil && !c.spend(n) {
		_ = c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func (c *cutter) Write(b []byte) (int, error) {
	if !c.spend(len(b)) {
		// Part of a frame gets out.
		_, _ = c.Conn.Write(b[:len(b)/2])
		_ = c.Conn.Close()
		return 0, io.ErrClosedPipe
	}
	return c.Conn.Write(b)
}

// survivor is a client that comes back.
type survivor struct {
	url     string
	rng     *rand.Rand
	want    []byte
	got     []byte
	session string
	started bool
	acked   int    // writes that were accepted
	seq     uint64 // newest event
	next    int
	ws      *websocket.Conn
	events  map[uint64]event // ahead of their turn
	exited  bool
	done    bool
}

const chaosChunk = 1500

func (c *survivor) run() error {
	c.events = make(map[uint64]event)
	for cuts := 0; !c.done; cuts++ {
		budget := 2000 + c.rng.IntN(40_000)
		if cuts > 60 {
			budget = 1 << 30 // enough: come to an end
		}
		err := c.connection(budget)
		if err != nil && (cuts > 60 || !broken(err)) {
			return err
		}
	}
	if !bytes.Equal(c.got, c.want) {
		return fmt.Errorf("%d bytes came back, not the %d that were sent", len(c.got), len(c.want))
	}
	return nil
}

// broken reports whether an error is the connection's.
func broken(err error) bool {
	var refused refusal
	return !asRefusal(err, &refused)
}

type refusal struct {
	Code    int
	Message string
}

func (r refusal) Error() string { return fmt.Sprintf("%d %s", r.Code, r.Message) }

func asRefusal(err error, to *refusal) bool {
	r, ok := err.(refusal)
	*to = r
	return ok
}

// connection lives through one connection.
func (c *survivor) connection(budget int) error {
	d := websocket.Dialer{NetDial: func(network, addr string) (net.Conn, error) {
		conn, err := net.Dial(network, addr)
		return &cutter{Conn: conn, left: budget}, err
	}}
	ws, _, err := d.Dial(c.url, nil)
	if err != nil {
		return err
	}
	defer ws.Close()
	c.ws = ws
	if err := c.attach(); err != nil {
		return err
	}
	if !c.started {
		r, err := c.call("process/start", startObject("cat", "exec cat", object{"pipeStdin": true}))
		if err != nil && !strings.Contains(err.Error(), "already exists") {
			return err
		}
		c.started = r != nil || err != nil
	}
	for !c.done {
		// Output that was written without a connection can be read.
		if err := c.catchUp(); err != nil {
			return err
		}
		at := c.acked * chaosChunk
		if at >= len(c.want) {
			if _, err := c.call("process/closeStdin", object{"processId": "cat"}); err != nil {
				return err
			}
			continue
		}
		chunk := c.want[at:min(len(c.want), at+chaosChunk)]
		if _, err := c.call("process/write", object{"processId": "cat", "chunk": chunk, "writeId": fmt.Sprint(c.acked)}); err != nil {
			return err
		}
		c.acked++
	}
	return nil
}

// attach initializes, waiting for the server to notice the cut.
func (c *survivor) attach() error {
	params := object{"clientName": "chaos"}
	if c.session != "" {
		params["resumeSessionId"] = c.session
	}
	for {
		raw, err := c.call("initialize", params)
		var r refusal
		if asRefusal(err, &r) && r.Code == -32010 {
			continue
		}
		if err != nil {
			return err
		}
		var result struct{ SessionID string }
		if err := json.Unmarshal(raw, &result); err != nil {
			return err
		}
		if c.session == "" {
			c.session = result.SessionID
		}
		return c.ws.WriteMessage(websocket.TextMessage, []byte(`{"method":"initialized"}`))
	}
}

// call makes a request and takes notifications while it waits.
func (c *survivor) call(method string, params any) (json.RawMessage, error) {
	c.next++
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(`{"id":%d,"method":%q,"params":%s}`, c.next, method, raw)
	if err := c.ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		return nil, err
	}
	for {
		_ = c.ws.SetReadDeadline(time.Now().Add(testTimeout))
		_, text, err := c.ws.ReadMessage()
		if err != nil {
			return nil, err
		}
		var m message
		if err := json.Unmarshal(text, &m); err != nil {
			return nil, refusal{Message: "no JSON: " + string(text)}
		}
		switch {
		case m.Method != "":
			if err := c.notified(m); err != nil {
				return nil, err
			}
		case string(m.ID) != fmt.Sprint(c.next):
			return nil, refusal{Message: "an answer to nothing: " + string(text)}
		case m.Error != nil:
			return nil, refusal{m.Error.Code, m.Error.Message}
		default:
			return m.Result, nil
		}
	}
}

func (c *survivor) notified(m message) error {
	var e event
	if err := json.Unmarshal(m.Params, &e); err != nil {
		return refusal{Message: err.Error()}
	}
	e.Stream = m.Method
	return c.take(e)
}

// take puts events in order. One that came before is no news.
func (c *survivor) take(e event) error {
	if e.Seq <= c.seq {
		return nil
	}
	c.events[e.Seq] = e
	for {
		e, ok := c.events[c.seq+1]
		if !ok {
			return nil
		}
		delete(c.events, e.Seq)
		c.seq = e.Seq
		switch e.Stream {
		case "process/exited":
			c.exited = true
		case "process/closed":
			c.done = true
		default:
			c.got = append(c.got, e.Chunk...)
			if !bytes.HasPrefix(c.want, c.got) {
				return refusal{Message: "bytes out of order at " + fmt.Sprint(len(c.got)) + " " + base64.StdEncoding.EncodeToString(e.Chunk)}
			}
		}
	}
}

// catchUp reads what notifications did not tell.
func (c *survivor) catchUp() error {
	raw, err := c.call("process/read", object{"processId": "cat", "afterSeq": c.seq})
	if err != nil {
		return err
	}
	var r struct {
		Chunks         []event
		NextSeq        uint64
		Exited, Closed bool
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return refusal{Message: err.Error()}
	}
	for _, e := range r.Chunks {
		e.Stream = "process/output"
		if err := c.take(e); err != nil {
			return err
		}
	}
	// The last two events carry no data: they follow from the flags.
	if r.Closed {
		c.done = true
	}
	return nil
}
