package simulation

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/wire/websocket"
)

// dialer is the Dialer of a further client.
type dialer struct {
	execclient.Dialer
	takeOver bool

	mu   sync.Mutex
	last *transport
}

// acknowledge acknowledges received output, as a client must for a process with a window. If an
// acknowledgement is lost with the connection, the next one replaces it.
func (d *dialer) acknowledge(seq uint64) {
	d.mu.Lock()
	last := d.last
	d.mu.Unlock()
	_ = last.Write(fmt.Appendf(nil, `{"method":"process/ack","params":{"processId":%q,"seq":%d}}`, processName, seq))
}

// Dial implements execclient.Dialer.
func (d *dialer) Dial(ctx context.Context) (execclient.Transport, error) {
	c, err := d.Dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = &transport{Transport: c, takeOver: d.takeOver}
	return d.last, nil
}

// direct opens websockets to the server. The function makes the connections.
type direct func(ctx context.Context, network, address string) (net.Conn, error)

// Dial implements execclient.Dialer.
func (d direct) Dial(ctx context.Context) (execclient.Transport, error) {
	c, err := websocket.Dial(ctx, serverURL, websocket.DialOptions{
		Options: websocket.Options{Limit: 64 << 20, Ping: keep}, Timeout: 10 * time.Second, Connect: d,
		Refused: refused,
	})
	if err != nil {
		return nil, err
	}
	return socket{c}, nil
}

func refused(res *http.Response) error { return fmt.Errorf("the server answered %s", res.Status) }

// socket adapts a websocket to the interface that a client needs.
type socket struct{ *websocket.Conn }

func (s socket) Read() ([]byte, error) {
	var b bytes.Buffer
	_, err := s.ReadTo(&b)
	return b.Bytes(), err
}

func (s socket) Write(message []byte) error { return s.WriteText(message) }

func (s socket) Close() error { return s.Conn.Close(websocket.CloseNormal, "") }

// transport requests a take-over in its first message, if it is configured so.
type transport struct {
	execclient.Transport

	mu       sync.Mutex // serializes writes
	takeOver bool
}

func (t *transport) Write(message []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.takeOver {
		t.takeOver = false
		message = bytes.Replace(message, []byte(`"resumeSessionId":`), []byte(`"takeOver":true,"resumeSessionId":`), 1)
	}
	return t.Transport.Write(message)
}
