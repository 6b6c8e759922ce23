package rendezvous

import (
	"bytes"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/protobuf/encoding/protowire"
)

// TestTraceFields: frames with the trace fields 11 (traceparent) and 12 (tracestate), as Codex CLI
// 0.169.0 sends them, are forwarded byte for byte in both directions.
func TestTraceFields(t *testing.T) { everywhere(t, testTraceFields) }

func testTraceFields(t *testing.T, start starter) {
	s := start(t, Options{})
	x := s.executor("env")
	h := s.harness("env")
	h.open(x, "a")
	traced := encode(t, data("a", 0, "request"))
	traced = protowire.AppendString(protowire.AppendTag(traced, 11, protowire.BytesType), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	traced = protowire.AppendString(protowire.AppendTag(traced, 12, protowire.BytesType), "vendor=value")
	for _, way := range []struct{ from, to *peer }{{h, x}, {x, h}} {
		if err := way.from.ws.WriteMessage(websocket.BinaryMessage, traced); err != nil {
			t.Fatal(err)
		}
		_ = way.to.ws.SetReadDeadline(time.Now().Add(patience))
		_, got, err := way.to.ws.ReadMessage()
		if err != nil || !bytes.Equal(got, traced) {
			t.Errorf("%q %v, want %q", got, err, traced)
		}
	}
}
