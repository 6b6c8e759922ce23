package websocket

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	gorilla "github.com/gorilla/websocket"
)

// libraryPair has the two ends of a connection of the library.
func libraryPair(t testing.TB) (client, server *gorilla.Conn) {
	t.Helper()
	accepted := make(chan *gorilla.Conn, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := new(gorilla.Upgrader).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
		}
		accepted <- conn
	}))
	t.Cleanup(s.Close)
	client, _, err := gorilla.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(s.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	server = <-accepted
	t.Cleanup(func() { _ = server.Close() })
	return client, server
}

// read makes the library read a frame, and then another message.
func read(t *testing.T, from, to *gorilla.Conn, wire, end []byte) (kind int, payload []byte) {
	t.Helper()
	handle := func(k int) func(string) error {
		return func(data string) error { kind, payload = k, []byte(data); return nil }
	}
	to.SetPingHandler(handle(gorilla.PingMessage))
	to.SetPongHandler(handle(gorilla.PongMessage))
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

// TestAgainstTheLibrary makes the library read payloads of all lengths at which the head or the
// number of blocks changes, written in several parts.
func TestAgainstTheLibrary(t *testing.T) {
	client, server := libraryPair(t)
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
		for _, code := range []Opcode{Text, Binary, opPing, opPong} {
			if code >= opClose && n > 125 {
				continue
			}
			t.Run(fmt.Sprintf("%d bytes, opcode %d", n, code), func(t *testing.T) {
				for _, tt := range []struct {
					from, to *gorilla.Conn
					masked   bool
				}{{server, client, false}, {client, server, true}} {
					wire := appendFrame([]byte("x"), firstByte(code, true), tt.masked, parts...)
					if wire[0] != 'x' || len(wire) > 1+n+maxHead {
						t.Fatalf("%d bytes for a payload of %d, behind %q", len(wire), n, wire[0])
					}
					kind, got := read(t, tt.from, tt.to, wire[1:], appendFrame(nil, firstByte(Text, true), tt.masked, []byte("end")))
					if kind != int(code) || !bytes.Equal(got, payload) || !bytes.Equal(payload, was) {
						t.Errorf("read as %d, %d bytes", kind, len(got))
					}
				}
			})
		}
	}
}

// TestKeysDiffer compares the keys of equal frames.
func TestKeysDiffer(t *testing.T) {
	keys := map[string]bool{}
	for range 100 {
		wire := appendFrame(nil, firstByte(opPing, true), true, []byte("data"))
		keys[string(wire[2:6])] = true
	}
	// In one of a million runs, two of 100 random keys of 32 bits are equal.
	if len(keys) < 99 {
		t.Errorf("%d keys for 100 frames", len(keys))
	}
}

func BenchmarkAppendFrame(b *testing.B) {
	payload, head := make([]byte, 61456), make([]byte, 60)
	buffer := make([]byte, 0, 1<<16)
	for _, masked := range []bool{false, true} {
		b.Run(fmt.Sprintf("masked %v", masked), func(b *testing.B) {
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			for b.Loop() {
				buffer = appendFrame(buffer[:0], firstByte(Binary, true), masked, head, payload)
			}
		})
	}
}
