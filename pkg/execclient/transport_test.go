package execclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/testutil"
	"github.com/gorilla/websocket"
)

// upgrade calls serve for each websocket connection.
func upgrade(t *testing.T, serve func(*websocket.Conn)) (url string) {
	t.Helper()
	var upgrader websocket.Upgrader
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		serve(c)
	}))
	t.Cleanup(srv.Close)
	return "ws" + strings.TrimPrefix(srv.URL, "http")
}

func greetOn(c *websocket.Conn) error {
	if _, _, err := c.ReadMessage(); err != nil {
		return err
	}
	if err := c.WriteMessage(websocket.BinaryMessage, []byte(`{"id":1,"result":{"sessionId":"s"}}`)); err != nil {
		return err
	}
	_, _, err := c.ReadMessage()
	return err
}

// TestASilentServerIsNoticed: if a server neither sends nor answers pings, the client closes
// the connection. A server that only answers pings stays connected.
func TestASilentServerIsNoticed(t *testing.T) {
	for _, silent := range []bool{true, false} {
		// On a busy machine a working server may answer late.
		keepAlive := map[bool]time.Duration{true: 20 * time.Millisecond, false: 500 * time.Millisecond}[silent]
		end := make(chan struct{})
		url := upgrade(t, func(c *websocket.Conn) {
			if greetOn(c) != nil {
				return
			}
			if silent {
				<-end
				return
			}
			_, _, _ = c.ReadMessage()
		})
		states := make(chan StateChange, 16)
		c, err := DialWebSocket(t.Context(), url, Options{
			KeepAlive: keepAlive, RecoveryTimeout: -1,
			OnStateChange: func(s StateChange) { states <- s },
		})
		must(t, err)
		select {
		case s := <-states:
			if !silent || s.State != Failed || !strings.Contains(s.Err.Error(), "does not answer") {
				t.Errorf(`got %+v; want silent true, s.State %v, s.Err with "does not answer"`, s, Failed)
			}
		case <-time.After(map[bool]time.Duration{true: 20 * time.Second, false: 3 * keepAlive}[silent]):
			if silent {
				t.Error("it was not noticed")
			}
		}
		close(end)
		_ = c.Close()
	}
}

func TestWhatEndsAConnection(t *testing.T) {
	for _, tt := range []struct{ sent, text string }{
		{`{"method":"process/output","params":{"processId":1}}`, "exec-server notification handling failed: "},
		{`{"id":7,"method":"ask","params":{}}`, "exec-server transport disconnected"},
		{`nonsense`, "exec-server transport disconnected"},
	} {
		url := upgrade(t, func(c *websocket.Conn) {
			if greetOn(c) == nil && c.WriteMessage(websocket.TextMessage, []byte(tt.sent)) == nil {
				_, _, _ = c.ReadMessage()
			}
		})
		c, err := DialWebSocket(t.Context(), url, Options{RecoveryTimeout: -1})
		if err == nil {
			<-c.Done()
			err = c.Err()
			_ = c.Close()
		}
		if text := err.Error(); text != tt.text && !(strings.HasSuffix(tt.text, ": ") && strings.HasPrefix(text, tt.text)) {
			t.Errorf("%s: got %s, want %s", tt.sent, text, tt.text)
		}
	}
	// Unknown members are no error.
	url := upgrade(t, func(c *websocket.Conn) {
		if greetOn(c) != nil {
			return
		}
		for _, text := range []string{`{"method":"news","params":[]}`, `{"id":99,"result":{}}`, `{"method":"process/closed","params":{"processId":"?","seq":1}}`} {
			_ = c.WriteMessage(websocket.TextMessage, []byte(text))
		}
		if _, _, err := c.ReadMessage(); err == nil {
			_ = c.WriteMessage(websocket.TextMessage, []byte(`{"id":2,"result":{"status":"ready"}}`))
		}
		_, _, _ = c.ReadMessage()
	})
	c, err := DialWebSocket(t.Context(), url, Options{RecoveryTimeout: -1})
	must(t, err)
	defer c.Close()
	must(t, c.Call(t.Context(), execproto.MethodEnvironmentStatus, nil, nil))
}

func TestConnectionsThatFail(t *testing.T) {
	free, err := testutil.FreePort()
	must(t, err)
	nobody := fmt.Sprintf("ws://127.0.0.1:%d", free)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer mute.Close()
	refuses := httptest.NewServer(http.NotFoundHandler())
	defer refuses.Close()
	waits := upgrade(t, func(c *websocket.Conn) { _, _, _ = c.ReadMessage(); _, _, _ = c.ReadMessage() })
	const soon = 50 * time.Millisecond
	for _, tt := range []struct {
		url, text string
		status    int
		retryable bool
	}{
		{nobody + "/?token=secret", "failed to connect to exec-server websocket `" + nobody + "/`: connect: connection refused", 0, true},
		{"ws://" + mute.Addr().String(), "timed out connecting to exec-server websocket `ws://" + mute.Addr().String() + "` after 50ms", 0, true},
		{"ws" + strings.TrimPrefix(refuses.URL, "http"), "failed to connect to exec-server websocket `ws" + strings.TrimPrefix(refuses.URL, "http") + "`: the server answered 404 Not Found: 404 page not found", 404, true},
		{waits, "timed out waiting for exec-server initialize handshake after 50ms", 0, true},
		{"http://x", `invalid exec-server URL "http://x": expected ws://HOST:PORT, wss://HOST:PORT or unix:///PATH`, 0, false},
	} {
		_, err := DialWebSocket(t.Context(), tt.url, Options{ConnectTimeout: soon, InitializeTimeout: soon})
		if err == nil || err.Error() != tt.text || retryable(err) != tt.retryable {
			t.Errorf("%s: got error %v; want an error, %v, retryable(err) %v", tt.url, err, tt.text, tt.retryable)
		}
		var d *DialError
		if errors.As(err, &d) && d.Status != tt.status {
			t.Errorf("%s: status %d", tt.url, d.Status)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := DialWebSocket(ctx, "ws://"+mute.Addr().String(), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

// TestGreetingsThatFail: a server, or another program, does something other than answer
// initialize.
func TestGreetingsThatFail(t *testing.T) {
	answers := func(text string) string {
		return upgrade(t, func(c *websocket.Conn) {
			if _, _, err := c.ReadMessage(); err == nil && text != "" {
				_ = c.WriteMessage(websocket.TextMessage, []byte(text))
				_, _, _ = c.ReadMessage()
			}
		})
	}
	for _, tt := range []struct{ answer, text string }{
		{"", "exec-server transport closed"},
		{`nonsense`, "exec-server transport closed"},
		{`{"id":1,"error":{"code":-32600,"message":"no"}}`, "exec-server rejected request (-32600): no"},
		{`{"id":1,"result":{"sessionId":5}}`, "failed to serialize or deserialize exec-server JSON: "},
	} {
		_, err := DialWebSocket(t.Context(), answers(tt.answer), Options{})
		if err == nil || err.Error() != tt.text && !(strings.HasSuffix(tt.text, ": ") && strings.HasPrefix(err.Error(), tt.text)) {
			t.Errorf("%q: got error %v; want an error, %v", tt.answer, err, tt.text)
		}
	}
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := StartCommand(t.Context(), Command{Path: os.Args[0], Dir: missing}, Options{}); err == nil ||
		!strings.HasPrefix(err.Error(), "failed to spawn exec-server: its working directory: ") || !strings.Contains(err.Error(), missing) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is missing: %v", err)
	}
	if _, err := StartCommand(t.Context(), Command{Path: missing}, Options{}); err == nil || !strings.HasPrefix(err.Error(), "failed to spawn exec-server: ") || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf(`got error %v; want an error beginning with "failed to spawn exec-server: ", %v`, err, fs.ErrNotExist)
	}
}
