package relay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/relay/frame"
)

// lockedBuffer is a log that can be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestLogHasNothingOfThePeers makes an executor log all its messages about a harness and a relay
// whose texts could be secret or arbitrary.
func TestLogHasNothingOfThePeers(t *testing.T) {
	var log lockedBuffer
	g := make(gate)
	r, _ := meet(t, ExecutorOptions{
		Serve: echo, Validate: told(g.validate), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	s := r.enter("other")
	r.enter("active")
	r.knock("pending", "wait")
	for _, id := range []string{"active", "pending", "unknown"} {
		r.send(resetOf(id, "secret"))
	}
	r.knock("x", "secret\xff")
	r.expect("x", frame.Reset)
	_ = r.ws.WriteMessage(websocket.TextMessage, []byte("secret"))
	_ = r.ws.WriteMessage(websocket.BinaryMessage, []byte("secret"))
	r.enter("broken")
	r.data("broken", 0, []byte("secret and more than a tag"))
	r.expect("broken", frame.Reset)
	r.says("other", s, 0)
	text := log.String()
	for _, want := range []string{"connected to the relay", "stream=" + streamID("active").LogValue().String(), "handshake failed", "relay message dropped", "stream=" + streamID("broken").LogValue().String()} {
		if !strings.Contains(text, want) {
			t.Errorf("the log does not say %q", want)
		}
	}
	if strings.Contains(text, "secret") || strings.Contains(text, "=active") {
		t.Errorf("the log says\n%s", text)
	}
}

// TestNothingPrintsCredentials prints every type that contains a credential.
func TestNothingPrintsCredentials(t *testing.T) {
	r := Registration{URL: "wss://relay.test/x?secret#secret", EnvironmentID: "env-1", RegistrationID: "reg-1"}
	b := Bundle{Registration: r, ExecutorKey: identity().PublicKey(), Authorization: "secret"}
	e := NewExecutor(ExecutorOptions{Identity: identity()})
	e.registration = r
	const shown = "environment env-1, registration reg-1 at wss://relay.test/x"
	for _, tt := range []struct {
		v    any
		want string
	}{{r, shown}, {&r, shown}, {b, shown}, {&b, shown}, {&Conn{bundle: b}, shown}, {newExecutorConn(t.Context(), e, nil, r), shown}, {e, "executor"}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if got := fmt.Sprintf(verb, tt.v); got != tt.want {
				t.Errorf("%T prints with %s as %s", tt.v, verb, got)
			}
		}
		var out strings.Builder
		for _, v := range []any{tt.v, []any{tt.v}, struct{ V any }{tt.v}} {
			slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", v)
			slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "v", v)
			text, err := json.Marshal(v)
			fmt.Fprintf(&out, "%#v %s %v", v, text, err)
		}
		if strings.Contains(out.String(), "secret") {
			t.Errorf("%T is logged as %s", tt.v, out.String())
		}
	}
}
