package sandbox

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"github.com/gorilla/websocket"
)

// askEnv makes this program ask its proxy for several hosts at a time. The value is their number.
// The program prints a line for each answer.
const askEnv = "E2E_ASK"

func init() {
	count, err := strconv.Atoi(os.Getenv(askEnv))
	if err != nil {
		return
	}
	var wg sync.WaitGroup
	for i := range count {
		wg.Go(func() { fmt.Println(askFor(fmt.Sprintf("h%d.test:80", i))) })
	}
	wg.Wait()
	os.Exit(0)
}

// askFor asks the proxy for a tunnel to a host, and returns the status.
func askFor(host string) string {
	conn, err := net.Dial("tcp", strings.TrimPrefix(os.Getenv("HTTP_PROXY"), "http://"))
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", host, host); err != nil {
		return err.Error()
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return err.Error()
	}
	return strconv.Itoa(resp.StatusCode)
}

// floods starts a process that requests hosts. The server asks the client about each host.
func (c *confined) floods(t *testing.T, w *wire, id string, count int) {
	t.Helper()
	self, err := os.Executable()
	harness.Must(t, err)
	w.call("process/start", object{
		"processId": id, "argv": []string{self}, "cwd": uri(c.ws), "tty": false, "sandbox": c.usual(), "enforceManagedNetwork": true,
		"env": object{"PATH": "/usr/bin:/bin", askEnv: strconv.Itoa(count)},
		"networkProxy": object{"policyDecisionTimeoutMs": 600_000, "proxy": object{
			"enabled": true, "enableSocks5": true, "enableSocks5Udp": false, "allowUpstreamProxy": false,
			"dangerouslyAllowAllUnixSockets": false, "mode": "full", "allowLocalBinding": false,
		}},
	})
}

// question receives the next question, and returns its id.
func (w *wire) question() json.RawMessage {
	w.t.Helper()
	return w.wait(func(m message) bool { return m.Method == "network/policyRequest" }).ID
}

// decline answers a question with a refusal.
func (w *wire) decline(id json.RawMessage) {
	w.t.Helper()
	text := fmt.Sprintf(`{"id":%s,"result":{"decision":{"type":"deny","reason":"not_allowed"}}}`, id)
	harness.Must(w.t, w.ws.WriteMessage(websocket.TextMessage, []byte(text)))
}

// refusals reads the output of processes until it has the given number of lines. All must be refusals.
func (w *wire) refusals(ids []string, lines int) {
	w.t.Helper()
	out := ""
	for strings.Count(out, "\n") < lines {
		var e event
		w.wait(func(m message) bool {
			e = event{}
			return m.Method == "process/output" && json.Unmarshal(m.Params, &e) == nil && slices.Contains(ids, e.ProcessID)
		})
		out += string(e.Chunk)
	}
	if out != strings.Repeat("403\n", lines) {
		w.t.Errorf("%d lines are %q", lines, out)
	}
}

// TestFloodsOfQuestions: processes that request hosts in a loop overload neither the connection nor
// the client. Excess requests are refused at once without a question, the connection serves other
// requests, and another client still gets questions.
func TestFloodsOfQuestions(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	c := confinedBy(t, harness.Codex)
	const processes, each, most = 5, 100, 256
	var ids []string
	for i := range processes {
		ids = append(ids, fmt.Sprint("flood", i))
		c.floods(t, c.wire, ids[i], each)
	}
	c.refusals(ids, processes*each-most) // the other questions are open
	var questions []json.RawMessage
	for range most {
		questions = append(questions, c.question())
	}
	c.call("fs/readFile", object{"path": uri(c.ws + "/f")})
	if c.start("between", c.usual(), "echo served"); c.end("between").out != "served\n" {
		t.Error("no process runs meanwhile")
	}
	for _, m := range c.held {
		if m.Method == "network/policyRequest" {
			t.Error("there is one question too many")
		}
	}
	second := connect(t, c.url)
	c.floods(t, second, "other", 1)
	second.decline(second.question())
	if e := second.end("other"); e.out != "403\n" {
		t.Errorf("the other client's process says %q", e.out)
	}
	for _, id := range questions {
		c.decline(id)
		c.decline(id) // a second answer is ignored
	}
	c.refusals(ids, most)
	for _, id := range ids {
		if e := c.end(id); e.out != "" || e.code != 0 {
			t.Errorf(`%s: got %+v; want e.out "", e.code 0`, id, e)
		}
	}
}
