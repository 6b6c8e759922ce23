package execserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"codex.internal/pkg/host/process"
	"codex.internal/pkg/testutil/leakcheck"
	"github.com/gorilla/websocket"
)

// testTimeout bounds the wait of a test for an event that must occur.
const testTimeout = 30 * time.Second

// newTestServer starts a server that ends with the test, and returns its URL. At the end it
// checks that no goroutine of the server is left.
func newTestServer(t testing.TB, opts Options) (*Server, string) {
	t.Helper()
	noneLeft := leakcheck.Goroutines(t)
	srv, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := srv.Serve(context.Background(), l); err != ErrServerClosed {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		serving.Wait()
		noneLeft()
	})
	return srv, "ws://" + l.Addr().String()
}

// peer is the client's end of a connection.
type peer struct {
	t    testing.TB
	ws   *websocket.Conn
	next int
	held []message // messages that were read while waiting for others
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

func dial(t testing.TB, url string) *peer {
	t.Helper()
	ws, _, err := websocket.DefaultDialer.Dial(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	return &peer{t: t, ws: ws}
}

// hello dials and makes the handshake. It returns the session id.
func hello(t testing.TB, url string) (*peer, string) {
	t.Helper()
	p := dial(t, url)
	return p, p.initialize("")
}

func (p *peer) initialize(resume string) string {
	p.t.Helper()
	params := map[string]any{"clientName": "test"}
	if resume != "" {
		params["resumeSessionId"] = resume
	}
	var r struct{ SessionID string }
	p.call("initialize", params, &r)
	p.text(`{"method":"initialized"}`)
	return r.SessionID
}

func (p *peer) text(s string) {
	p.t.Helper()
	if err := p.ws.WriteMessage(websocket.TextMessage, []byte(s)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) send(method string, params any) string {
	p.t.Helper()
	p.next++
	raw, err := json.Marshal(params)
	if err != nil {
		p.t.Fatal(err)
	}
	id := fmt.Sprint(p.next)
	p.text(`{"id":` + id + `,"method":"` + method + `","params":` + string(raw) + `}`)
	return id
}

// read returns the next message from the wire.
func (p *peer) read() message {
	p.t.Helper()
	_ = p.ws.SetReadDeadline(time.Now().Add(testTimeout))
	_, text, err := p.ws.ReadMessage()
	if err != nil {
		p.t.Fatalf("read: %v", err)
	}
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		p.t.Fatalf("%.200s: got error %v, want no error", text, err)
	}
	return m
}

// wait returns the first message that fits, in the order of arrival.
func (p *peer) wait(fits func(message) bool) message {
	p.t.Helper()
	for i, m := range p.held {
		if fits(m) {
			p.held = append(p.held[:i:i], p.held[i+1:]...)
			return m
		}
	}
	for {
		m := p.read()
		if fits(m) {
			return m
		}
		p.held = append(p.held, m)
	}
}

func (p *peer) answer(id string) message {
	p.t.Helper()
	return p.wait(func(m message) bool { return m.Method == "" && string(m.ID) == id })
}

// call makes a request, which must succeed.
func (p *peer) call(method string, params, result any) {
	p.t.Helper()
	m := p.answer(p.send(method, params))
	if m.Error != nil {
		p.t.Fatalf("%s: got m.Error.Code %d, m.Error.Message %s; want m.Error nil", method, m.Error.Code, m.Error.Message)
	}
	if result != nil {
		if err := json.Unmarshal(m.Result, result); err != nil {
			p.t.Fatal(err)
		}
	}
}

// refuse makes a request, which must fail with that code and text.
func (p *peer) refuse(method string, params any, code int, text string) {
	p.t.Helper()
	m := p.answer(p.send(method, params))
	if m.Error == nil || m.Error.Code != code || !strings.Contains(m.Error.Message, text) {
		p.t.Errorf("%s: %s %+v, want %d %q", method, m.Result, m.Error, code, text)
	}
}

type object = map[string]any

// start starts a shell script.
func (p *peer) start(id, script string, more ...object) {
	p.t.Helper()
	p.call("process/start", startObject(id, script, more...), nil)
}

func startObject(id, script string, more ...object) object {
	o := object{
		"processId": id, "argv": []string{"/bin/sh", "-c", script}, "cwd": "file:///",
		"env": object{"PATH": "/usr/bin:/bin"}, "tty": false,
	}
	for _, m := range more {
		for k, v := range m {
			o[k] = v
		}
	}
	return o
}

// event is one notification of a process.
type event struct {
	ProcessID string
	Seq       uint64
	Stream    string
	Chunk     []byte
	ExitCode  int
}

// closed reads a process's notifications up to the last and returns its
// output and exit code. Their numbers must have no gap.
func (p *peer) closed(id string) (string, int) {
	p.t.Helper()
	var out bytes.Buffer
	code := -1
	for seq := uint64(1); ; seq++ {
		var e event
		m := p.wait(func(m message) bool {
			e = event{}
			return strings.HasPrefix(m.Method, "process/") && json.Unmarshal(m.Params, &e) == nil && e.ProcessID == id
		})
		if e.Seq != seq {
			p.t.Fatalf("%s: event %d where %d was to come", id, e.Seq, seq)
		}
		switch m.Method {
		case "process/output":
			out.Write(e.Chunk)
		case "process/exited":
			code = e.ExitCode
		case "process/closed":
			return out.String(), code
		}
	}
}

// closing reads until the server closes the connection, and returns the close code and the
// reason.
func (p *peer) closing() (int, string) {
	p.t.Helper()
	_ = p.ws.SetReadDeadline(time.Now().Add(testTimeout))
	for {
		_, _, err := p.ws.ReadMessage()
		if closed, ok := err.(*websocket.CloseError); ok {
			return closed.Code, closed.Text
		}
		if err != nil {
			p.t.Fatalf("the connection ended without a word: %v", err)
		}
	}
}

// withCgroups returns options like those of codex exec-server.
func withCgroups() Options { return Options{Process: process.Options{Cgroups: true}} }

func uri(dir, name string) string { return "file://" + dir + "/" + name }

func mustWrite(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
