package wsframe_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/wire/wsframe"
)

// pair is the two ends of a connection of the library's.
func pair(t *testing.T) (client, server *websocket.Conn) {
	t.Helper()
	accepted := make(chan *websocket.Conn, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := new(websocket.Upgrader).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
		}
		accepted <- conn
	}))
	t.Cleanup(s.Close)
	client, _, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(s.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	server = <-accepted
	t.Cleanup(func() { _ = server.Close() })
	return client, server
}

// read has the library read a frame, and a message behind it.
func read(t *testing.T, from, to *websocket.Conn, wire, end []byte) (kind int, payload []byte) {
	t.Helper()
	handle := func(k int) func(string) error {
		return func(data string) error { kind, payload = k, []byte(data); return nil }
	}
	to.SetPingHandler(handle(websocket.PingMessage))
	to.SetPongHandler(handle(websocket.PongMessage))
	written := make(chan error, 1)
	go func() {
		_, err := from.NetConn().Write(append(wire, end...))
		written <- err
	}()
	for {
		k, message, err := to.ReadMessage()
		switch {
		case err != nil:
			t.Fatal(err)
		case string(message) == "end":
			if err := <-written; err != nil {
				t.Fatal(err)
			}
			return kind, payload
		default:
			kind, payload = k, message
		}
	}
}

// TestAgainstTheLibrary has it read payloads of all lengths at which heads or
// blocks change, in several parts.
func TestAgainstTheLibrary(t *testing.T) {
	client, server := pair(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 3, 4, 5, 125, 126, 127, 1023, 1024, 1025, 4096, 0xFFFF, 0x10000, 200_000} {
		payload := make([]byte, n)
		for i := range payload {
			payload[i] = byte(r.Uint32())
		}
		a := r.IntN(n + 1)
		b := a + r.IntN(n-a+1)
		parts := [][]byte{payload[:a], payload[a:b], payload[b:]}
		was := bytes.Clone(payload)
		for _, code := range []wsframe.Opcode{wsframe.Text, wsframe.Binary, wsframe.Ping, wsframe.Pong} {
			if code >= wsframe.Close && n > 125 {
				continue
			}
			t.Run(fmt.Sprintf("%d bytes, opcode %d", n, code), func(t *testing.T) {
				for _, tt := range []struct {
					from, to *websocket.Conn
					append   func(b []byte, code wsframe.Opcode, parts ...[]byte) []byte
				}{{server, client, wsframe.Append}, {client, server, wsframe.AppendMasked}} {
					wire := tt.append([]byte("x"), code, parts...)
					if wire[0] != 'x' || len(wire) > 1+n+wsframe.MaxHead {
						t.Fatalf("%d bytes for a payload of %d, behind %q", len(wire), n, wire[0])
					}
					kind, got := read(t, tt.from, tt.to, wire[1:], tt.append(nil, wsframe.Text, []byte("end")))
					if kind != int(code) || !bytes.Equal(got, payload) || !bytes.Equal(payload, was) {
						t.Errorf("read as %d, %d bytes", kind, len(got))
					}
				}
			})
		}
	}
}

// TestKeysDiffer looks at the keys of equal frames.
func TestKeysDiffer(t *testing.T) {
	keys := map[string]bool{}
	for range 100 {
		wire := wsframe.AppendMasked(nil, wsframe.Ping, []byte("data"))
		keys[string(wire[2:6])] = true
	}
	// Two of 100 keys of 32 bits are equal once in a million runs.
	if len(keys) < 99 {
		t.Errorf("%d keys for 100 frames", len(keys))
	}
}

func BenchmarkAppend(b *testing.B) {
	payload, head := make([]byte, 61456), make([]byte, 60)
	buffer := make([]byte, 0, 1<<16)
	for _, masked := range []bool{false, true} {
		b.Run(fmt.Sprintf("masked %v", masked), func(b *testing.B) {
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			for b.Loop() {
				if masked {
					buffer = wsframe.AppendMasked(buffer[:0], wsframe.Binary, head, payload)
				} else {
					buffer = wsframe.Append(buffer[:0], wsframe.Binary, head, payload)
				}
			}
		})
	}
}
