package sandbox

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"github.com/gorilla/websocket"
)

// wire is a connection that sends raw messages.
type wire struct {
	t    *testing.T
	ws   *websocket.Conn
	next int
	held []message
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func connect(t *testing.T, url string) *wire {
	t.Helper()
	ws, _, err := websocket.DefaultDialer.Dial(url, nil)
	harness.Must(t, err)
	t.Cleanup(func() { _ = ws.Close() })
	w := &wire{t: t, ws: ws}
	w.call("initialize", object{"clientName": "test"})
	harness.Must(t, ws.WriteMessage(websocket.TextMessage, []byte(`{"method":"initialized"}`)))
	return w
}

func (w *wire) send(method string, params any) string {
	w.t.Helper()
	w.next++
	text, err := json.Marshal(object{"id": w.next, "method": method, "params": params})
	harness.Must(w.t, err)
	harness.Must(w.t, w.ws.WriteMessage(websocket.TextMessage, text))
	return strconv.Itoa(w.next)
}

func (w *wire) wait(fits func(message) bool) message {
	w.t.Helper()
	for i, m := range w.held {
		if fits(m) {
			w.held = slices.Delete(w.held, i, i+1)
			return m
		}
	}
	for {
		_ = w.ws.SetReadDeadline(time.Now().Add(harness.Patience))
		_, text, err := w.ws.ReadMessage()
		harness.Must(w.t, err)
		var m message
		harness.Must(w.t, json.Unmarshal(text, &m))
		if fits(m) {
			return m
		}
		w.held = append(w.held, m)
	}
}

func (w *wire) answer(id string) message {
	w.t.Helper()
	return w.wait(func(m message) bool { return m.Method == "" && string(m.ID) == id })
}

// call makes a request that must succeed, and returns the result.
func (w *wire) call(method string, params any) map[string]any {
	w.t.Helper()
	m := w.answer(w.send(method, params))
	if m.Error != nil {
		w.t.Fatalf("%s: got m.Error.Code %d, m.Error.Message %s; want m.Error nil", method, m.Error.Code, m.Error.Message)
	}
	var r map[string]any
	harness.Must(w.t, json.Unmarshal(m.Result, &r))
	return r
}

// refuse makes a request that must fail.
func (w *wire) refuse(method string, params any, code int, text string) {
	w.t.Helper()
	m := w.answer(w.send(method, params))
	if m.Error == nil || m.Error.Code != code || !strings.Contains(m.Error.Message, text) {
		w.t.Errorf("%s: %.200s %+v, want %d %q", method, m.Result, m.Error, code, text)
	}
}

type ended struct {
	out    string
	code   int
	denied bool
}

// end reads the notifications of a process up to the last one.
func (w *wire) end(id string) ended {
	w.t.Helper()
	var e ended
	for {
		m, p := w.event(id)
		switch m {
		case "process/output":
			e.out += string(p.Chunk)
		case "process/exited":
			e.code, e.denied = p.ExitCode, p.SandboxDenied
		case "process/closed":
			return e
		}
	}
}

type event struct {
	ProcessID     string
	Chunk         []byte
	ExitCode      int
	SandboxDenied bool
}

func (w *wire) event(id string) (string, event) {
	w.t.Helper()
	var e event
	m := w.wait(func(m message) bool {
		e = event{}
		return strings.HasPrefix(m.Method, "process/") && json.Unmarshal(m.Params, &e) == nil && e.ProcessID == id
	})
	return m.Method, e
}

// saying reads output until it contains a text.
func (w *wire) saying(id, text string) {
	w.t.Helper()
	for out := ""; !strings.Contains(out, text); {
		m, e := w.event(id)
		if out += string(e.Chunk); m == "process/closed" {
			w.t.Fatalf("%s said %q and not %q", id, out, text)
		}
	}
}
