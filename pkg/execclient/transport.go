package execclient

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// Transport carries whole JSON-RPC messages. Read and Write are used by one
// goroutine each; Close ends both.
type Transport interface {
	// Read returns the next message in memory of its own; io.EOF when the
	// server ended the connection in order.
	Read() ([]byte, error)
	Write(message []byte) error
	Close() error
}

// webSocket is a Transport over a websocket.
type webSocket struct{ c *websocket.Conn }

// dialWebSocket connects to ws:// or wss://. A token is sent only where
// nobody can listen in: over wss, or to a loopback address.
func dialWebSocket(ctx context.Context, rawURL string, o Options) (Transport, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss" {
		return nil, fmt.Errorf("invalid exec-server URL %q: expected ws://HOST:PORT or wss://HOST:PORT", shown(rawURL))
	}
	header := http.Header{}
	if o.BearerToken != "" {
		if u.Scheme != "wss" && !isLoopback(u.Hostname()) {
			return nil, fmt.Errorf("the connection token is not sent to %s: it could be read on the way; use wss:// or a loopback address", shown(rawURL))
		}
		header.Set("Authorization", "Bearer "+o.BearerToken)
	}
	ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
	defer cancel()
	dialer := websocket.Dialer{Proxy: http.ProxyFromEnvironment, ReadBufferSize: 32 << 10, WriteBufferSize: 32 << 10}
	c, res, err := dialer.DialContext(ctx, rawURL, header)
	if err != nil {
		return nil, fmt.Errorf("failed to connect to exec-server websocket `%s`: %w", shown(rawURL), dialError(res, err))
	}
	c.SetReadLimit(maxMessage)
	return &webSocket{c}, nil
}

// dialError adds what the server said to a refused upgrade.
func dialError(res *http.Response, err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	if res == nil {
		return err
	}
	defer res.Body.Close()
	const most = 300
	text, _ := io.ReadAll(io.LimitReader(res.Body, most))
	return fmt.Errorf("the server answered %s: %s", res.Status, bytes.TrimSpace(text))
}

// shown is a URL without what may be secret in it.
func shown(rawURL string) string {
	rawURL, _, _ = strings.Cut(rawURL, "?")
	rawURL, _, _ = strings.Cut(rawURL, "#")
	if u, err := url.Parse(rawURL); err == nil && u.User != nil {
		u.User = url.User("…")
		return u.String()
	}
	return rawURL
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func (t *webSocket) Read() ([]byte, error) {
	_, message, err := t.c.ReadMessage()
	var closed *websocket.CloseError
	if errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure {
		if closed.Code == websocket.CloseNormalClosure || closed.Text == "" {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("the server closed the connection: %s", closed.Text)
	}
	return message, err
}

func (t *webSocket) Write(message []byte) error {
	return t.c.WriteMessage(websocket.TextMessage, message)
}

func (t *webSocket) Close() error {
	// The server is told, if it can be told at once.
	_ = t.c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
	return t.c.Close()
}

// Command is a server that is spoken to over its stdin and stdout.
type Command struct {
	Path string
	Args []string // without the program's name
	Env  []string // nil: this program's
	Dir  string
	// Stderr gets the command's stderr; nil: it is dropped.
	Stderr io.Writer
}

// stdio is a Transport over a command's streams.
type stdio struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	once sync.Once
	err  error
}

func startCommand(c Command) (Transport, error) {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env, cmd.Dir, cmd.Stderr = c.Env, c.Dir, c.Stderr
	ownGroup(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("failed to spawn exec-server: %w", err)
	}
	return &stdio{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 64<<10)}, nil
}

func (t *stdio) Read() ([]byte, error) {
	for {
		line, err := t.out.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (t *stdio) Write(message []byte) error {
	_, err := t.in.Write(append(message, '\n'))
	return err
}

// Close ends the command: by its stdin, then by SIGTERM where there are
// signals, then by SIGKILL.
func (t *stdio) Close() error {
	t.once.Do(func() {
		_ = t.in.Close()
		term := time.AfterFunc(childGrace, func() { endGroup(t.cmd.Process) })
		kill := time.AfterFunc(2*childGrace, func() { killGroup(t.cmd.Process) })
		t.err = t.cmd.Wait()
		term.Stop()
		kill.Stop()
	})
	return t.err
}
