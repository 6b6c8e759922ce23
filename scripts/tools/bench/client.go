package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gorilla/websocket"
)

// client is a minimal exec-server client. It encodes its messages by hand and parses only the
// necessary parts of an answer, so that the client's own time is negligible.
type client struct {
	ws   *websocket.Conn
	next int
	buf  bytes.Buffer
	said []byte // the latest short output of a process, for error messages
}

// patience bounds the wait for one message.
const patience = 30 * time.Second

func dial(url, token string) (*client, error) {
	d := websocket.Dialer{ReadBufferSize: 256 << 10, WriteBufferSize: 256 << 10, HandshakeTimeout: patience}
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	ws, _, err := d.Dial(url, header)
	if err != nil {
		return nil, err
	}
	return &client{ws: ws}, nil
}

// connect dials and makes the handshake. It sends a token unless token is empty.
func connect(url, token string) (*client, error) {
	c, err := dial(url, token)
	if err != nil {
		return nil, err
	}
	if err := c.hello(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *client) hello() error {
	if _, err := c.call("initialize", `{"clientName":"bench","resumeSessionId":null}`); err != nil {
		return err
	}
	return c.ws.WriteMessage(websocket.TextMessage, []byte(`{"method":"initialized"}`))
}

func (c *client) close() {
	if c != nil {
		_ = c.ws.Close()
	}
}

// send sends a request and returns its id.
func (c *client) send(method, params string) (int, error) {
	c.next++
	text := `{"id":` + strconv.Itoa(c.next) + `,"method":"` + method + `","params":` + params + `}`
	return c.next, c.ws.WriteMessage(websocket.TextMessage, []byte(text))
}

// read returns the next message; it is valid until the next call.
func (c *client) read() ([]byte, error) {
	_ = c.ws.SetReadDeadline(time.Now().Add(patience))
	_, r, err := c.ws.NextReader()
	if err != nil {
		return nil, err
	}
	c.buf.Reset()
	_, err = c.buf.ReadFrom(r)
	return c.buf.Bytes(), err
}

// call makes a request and returns the text of its answer.
func (c *client) call(method, params string) ([]byte, error) {
	id, err := c.send(method, params)
	if err != nil {
		return nil, err
	}
	return c.answer(id)
}

// answer reads messages up to the answer to a request. An error in the answer is returned as an
// error.
func (c *client) answer(id int) ([]byte, error) {
	want := []byte(`"id":` + strconv.Itoa(id))
	for {
		m, err := c.read()
		if err != nil {
			return nil, err
		}
		head := m[:min(len(m), 64)]
		tail := m[max(0, len(m)-64):]
		if bytes.HasPrefix(head, []byte(`{"method"`)) || !bytes.Contains(head, want) && !bytes.Contains(tail, want) {
			continue
		}
		if bytes.Contains(head, []byte(`"error":`)) {
			_, text, _ := bytes.Cut(m, []byte(`"message":"`))
			text, _, _ = bytes.Cut(text, []byte(`"}`))
			return nil, fmt.Errorf("the server says: %s", text)
		}
		return m, nil
	}
}

// start starts a process.
func (c *client) start(id string, argv, options string) error {
	_, err := c.call("process/start", startParams(id, argv, options))
	return err
}

func startParams(id, argv, options string) string {
	return startParamsIn("/", "/usr/bin:/bin", id, argv, options)
}

func startParamsIn(dir, path, id, argv, options string) string {
	return `{"processId":"` + id + `","argv":` + argv + `,"cwd":"file://` + dir + `","env":{"PATH":"` + path + `"},"arg0":null,` + options + `}`
}

// events reads a process's events until it has closed, and returns how many bytes the process
// wrote. The number of events must equal the number of the last event, and the exit code must be 0.
func (c *client) events(id string) (int, error) {
	total, count, last, code := 0, 0, -1, 0
	c.said = c.said[:0]
	mine := []byte(`"processId":"` + id + `"`)
	for {
		m, err := c.read()
		if err != nil {
			return total, err
		}
		head := m[:min(len(m), 160)]
		if !bytes.Contains(head, mine) {
			continue
		}
		switch {
		case bytes.HasPrefix(head, []byte(`{"method":"process/output"`)):
			count++
			n, err := chunkLen(m)
			if err != nil {
				return total, err
			}
			total += n
			if n <= 1<<10 {
				c.said, _ = base64.StdEncoding.AppendDecode(c.said[:0], chunk(m))
			}
		case bytes.HasPrefix(head, []byte(`{"method":"process/exited"`)):
			count++
			code = number(m, `"exitCode":`)
		case bytes.HasPrefix(head, []byte(`{"method":"process/closed"`)):
			count++
			last = number(m, `"seq":`)
		}
		// Codex CLI sometimes sends the last two events in the wrong order.
		if count == last {
			if code != 0 {
				return total, fmt.Errorf("it ended with %d: %s", code, bytes.TrimSpace(c.said))
			}
			return total, nil
		}
	}
}

// chunkLen returns the length of the data in a process/output.
func chunkLen(m []byte) (int, error) {
	text := chunk(m)
	if text == nil {
		return 0, fmt.Errorf("no chunk in %.100s", m)
	}
	return decodedLen(text), nil
}

// chunk returns the base64 data of a process/output, or nil if there is none.
func chunk(m []byte) []byte {
	_, text, _ := bytes.Cut(m, []byte(`"chunk":"`))
	if end := bytes.IndexByte(text, '"'); end >= 0 {
		return text[:end]
	}
	return nil
}

func decodedLen(text []byte) int {
	return base64.StdEncoding.DecodedLen(len(text)) - bytes.Count(text[max(0, len(text)-2):], []byte("="))
}

func number(m []byte, member string) int {
	i := bytes.Index(m, []byte(member))
	if i < 0 {
		return -1
	}
	n := 0
	for _, c := range m[i+len(member):] {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int(c-'0')
	}
	return n
}
