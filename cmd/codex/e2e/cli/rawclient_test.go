package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"github.com/gorilla/websocket"
)

// messages is a message connection, direct or through a relay.
type messages interface {
	Read() ([]byte, error)
	Write(message []byte) error
}

// direct is a websocket to a server.
type direct struct{ ws *websocket.Conn }

func (d direct) Read() ([]byte, error) {
	if err := d.ws.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	_, message, err := d.ws.ReadMessage()
	return message, err
}

func (d direct) Write(message []byte) error { return d.ws.WriteMessage(websocket.TextMessage, message) }

// rawClient sends and receives messages of the protocol.
type rawClient struct {
	t    *testing.T
	conn messages
	id   int

	session string // id of the session
	failure string // the error of the last call; empty: it succeeded
}

func connectRaw(t *testing.T, url string) *rawClient {
	ws, res, err := websocket.DefaultDialer.Dial(url, nil)
	harness.Must(t, err)
	_ = res.Body.Close()
	t.Cleanup(func() { _ = ws.Close() })
	return greet(t, direct{ws})
}

// greet performs the handshake with a server.
func greet(t *testing.T, conn messages) *rawClient {
	t.Helper()
	c := &rawClient{t: t, conn: conn}
	c.session, _ = c.call("initialize", `{"clientName":"test"}`, "")["sessionId"].(string)
	harness.Must(t, conn.Write([]byte(`{"method":"initialized"}`)))
	return c
}

// call sends a request and returns its result. If trace is empty, the request has no trace member.
func (c *rawClient) call(method, params, trace string) map[string]any {
	c.t.Helper()
	c.id++
	text := fmt.Sprintf(`{"id":%d,"method":%q,"params":%s`, c.id, method, params)
	if trace != "" {
		text += `,"trace":` + trace
	}
	harness.Must(c.t, c.conn.Write([]byte(text+"}")))
	for {
		answer, err := c.conn.Read()
		harness.Must(c.t, err)
		var m struct {
			ID     int
			Result map[string]any
			Error  *struct{ Message string }
		}
		harness.Must(c.t, json.Unmarshal(answer, &m))
		if m.ID == c.id {
			c.failure = ""
			if m.Error != nil {
				c.failure = m.Error.Message
				c.t.Logf("%s: %s", method, c.failure)
			}
			return m.Result
		}
	}
}

// output runs a command and returns its output.
func (c *rawClient) output(id, script, more, trace string) string {
	c.t.Helper()
	c.start(id, script, more, trace)
	return c.follow(id)
}

// start starts a command.
func (c *rawClient) start(id, script, more, trace string) {
	c.t.Helper()
	c.call("process/start", fmt.Sprintf(`{"processId":%q,"argv":["sh","-c",%q],"cwd":"file:///","env":{"PATH":"/usr/bin:/bin","TRACEPARENT":"old"},"tty":false%s}`, id, script, more), trace)
}

// follow returns the output of a process after it has ended.
func (c *rawClient) follow(id string) string {
	c.t.Helper()
	var out []byte
	for after := 0.0; ; {
		r := c.call("process/read", fmt.Sprintf(`{"processId":%q,"afterSeq":%v,"waitMs":10000}`, id, after), "")
		chunks, _ := r["chunks"].([]any)
		for _, chunk := range chunks {
			text, _ := chunk.(map[string]any)["chunk"].(string)
			b, err := base64.StdEncoding.DecodeString(text)
			harness.Must(c.t, err)
			out = append(out, b...)
			after, _ = chunk.(map[string]any)["seq"].(float64)
		}
		if r["closed"] == true {
			return string(out)
		}
	}
}
