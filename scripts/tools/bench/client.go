package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"github.com/gorilla/websocket"
)

// client is a lean exec-server client: it writes its messages by hand and
// looks at no more of an answer than it must, so that it is not what is
// measured.
type client struct {
	ws   *websocket.Conn
	next int
	buf  bytes.Buffer
}

// patience bounds the wait for any one message.
const patience = 120 * time.Second

func dial(url string) (*client, error) {
	d := websocket.Dialer{ReadBufferSize: 256 << 10, WriteBufferSize: 256 << 10, HandshakeTimeout: patience}
	ws, _, err := d.Dial(url, nil)
	if err != nil {
		return nil, err
	}
	return &client{ws: ws}, nil
}

// connect dials and makes the handshake.
func connect(url string) (*client, error) {
	c, err := dial(url)
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

func (c *client) close() { _ = c.ws.Close() }

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

// answer reads up to the answer to a request. Errors are errors.
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
			return nil, fmt.Errorf("the server says %s", m)
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
	return `{"processId":"` + id + `","argv":` + argv + `,"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"arg0":null,` + options + `}`
}

// events reads a process's events until it has closed and returns how many
// bytes it wrote. There must be as many events as the last one's number says.
func (c *client) events(id string) (int, error) {
	total, count, last := 0, 0, -1
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
		case bytes.HasPrefix(head, []byte(`{"method":"process/exited"`)):
			count++
		case bytes.HasPrefix(head, []byte(`{"method":"process/closed"`)):
			count++
			last = number(m, `"seq":`)
		}
		// The reference sometimes tells the last two the wrong way round.
		if count == last {
			return total, nil
		}
	}
}

// chunkLen is the length of the data in a process/output.
func chunkLen(m []byte) (int, error) {
	const member = `"chunk":"`
	i := bytes.Index(m, []byte(member))
	if i < 0 {
		return 0, fmt.Errorf("no chunk in %.100s", m)
	}
	text := m[i+len(member):]
	end := bytes.IndexByte(text, '"')
	if end < 0 {
		return 0, fmt.Errorf("an open chunk in %.100s", m)
	}
	return decodedLen(text[:end]), nil
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
