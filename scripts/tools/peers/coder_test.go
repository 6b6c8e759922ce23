package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/coder/websocket"
)

// coder is a client that uses coder/websocket.
func coder(ctx context.Context, mode, url, token, file string) error {
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	// The client offers compression, as many libraries do.
	ws, response, err := websocket.Dial(ctx, url, &websocket.DialOptions{
		HTTPHeader: header, CompressionMode: websocket.CompressionContextTakeover,
	})
	if status, e := strconv.Atoi(mode); e == nil {
		if err == nil || response == nil || response.StatusCode != status {
			return fmt.Errorf("%v, %v; want status %d", response, err, status)
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(-1)
	c := &coderClient{ws: ws}
	if mode == "relay" {
		err = c.relay(ctx)
	} else {
		err = c.converse(ctx, file)
	}
	if err != nil {
		return err
	}
	return ws.Close(websocket.StatusNormalClosure, "done")
}

type coderClient struct {
	ws    *websocket.Conn
	last  int
	bytes int // of output
}

type coderMessage struct {
	ID     *int            `json:"id"`
	Method string          `json:"method"`
	Error  json.RawMessage `json:"error"`
	Result json.RawMessage `json:"result"`
	Params struct {
		Chunk []byte `json:"chunk"`
	} `json:"params"`
}

func (c *coderClient) converse(ctx context.Context, file string) error {
	if _, err := c.call(ctx, "initialize", map[string]any{"clientName": "coder"}); err != nil {
		return err
	}
	if err := c.ws.Write(ctx, websocket.MessageText, []byte(`{"method":"initialized"}`)); err != nil {
		return err
	}
	if _, err := c.call(ctx, "process/start", map[string]any{
		"processId": "p", "argv": []string{"head", "-c", "3000000", "/dev/zero"}, "cwd": "file:///", "env": map[string]any{}, "tty": false,
	}); err != nil {
		return err
	}
	if _, err := c.read(ctx, func(m *coderMessage) bool { return m.Method == "process/closed" }); err != nil {
		return err
	}
	if c.bytes != 3000000 {
		return fmt.Errorf("%d bytes of output came", c.bytes)
	}
	content := []byte(strings.Repeat("x", 3<<20))
	if _, err := c.call(ctx, "fs/writeFile", map[string]any{"path": file, "dataBase64": content}); err != nil {
		return err
	}
	result, err := c.call(ctx, "fs/getMetadata", map[string]any{"path": file})
	if err != nil {
		return err
	}
	var metadata struct{ Size int }
	if err := json.Unmarshal(result, &metadata); err != nil || metadata.Size != len(content) {
		return fmt.Errorf("the file has %d bytes, %v", metadata.Size, err)
	}
	return nil
}

// call sends a request in fragments, and returns its result.
func (c *coderClient) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	c.last++
	text, err := json.Marshal(map[string]any{"id": c.last, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	w, err := c.ws.Writer(ctx, websocket.MessageText)
	if err != nil {
		return nil, err
	}
	for len(text) > 0 {
		n := min(len(text), 1<<16)
		if _, err := w.Write(text[:n]); err != nil {
			return nil, err
		}
		text = text[n:]
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	id := c.last
	m, err := c.read(ctx, func(m *coderMessage) bool { return m.ID != nil && *m.ID == id })
	switch {
	case err != nil:
		return nil, err
	case m.Error != nil:
		return nil, errors.New(string(m.Error))
	}
	return m.Result, nil
}

// read reads messages until the wanted one.
func (c *coderClient) read(ctx context.Context, wanted func(*coderMessage) bool) (*coderMessage, error) {
	for {
		kind, text, err := c.ws.Read(ctx)
		if err != nil {
			return nil, err
		}
		var m coderMessage
		if err := json.Unmarshal(text, &m); err != nil || kind != websocket.MessageText {
			return nil, fmt.Errorf("%v message %.100q, %v", kind, text, err)
		}
		if m.Method == "process/output" {
			c.bytes += len(m.Params.Chunk)
		}
		if wanted(&m) {
			return &m, nil
		}
	}
}

// relay sends messages that are not frames. In this library, pings need a concurrent reader.
func (c *coderClient) relay(ctx context.Context) error {
	ctx = c.ws.CloseRead(ctx)
	if err := c.ws.Ping(ctx); err != nil {
		return err
	}
	if err := c.ws.Write(ctx, websocket.MessageText, []byte("no frame of the relay")); err != nil {
		return err
	}
	if err := c.ws.Write(ctx, websocket.MessageBinary, make([]byte, 100_000)); err != nil {
		return err
	}
	return c.ws.Ping(ctx)
}
