package relay

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/wire/websocket"
)

// TestSharedRecords counts the records of messages that are written together:
// as few as possible for a harness that acknowledges, otherwise as many as
// Codex CLI sends.
func TestSharedRecords(t *testing.T) {
	messages := [][]byte{message(1, 1), message(2, 1), message(3, noise.MaxChunk), message(4, 1), message(5, 2*noise.MaxChunk)}
	for _, tt := range []struct {
		plain bool
		want  int64
	}{{false, 4}, {true, 1 + 1 + 2 + 1 + 3}} {
		t.Run(fmt.Sprintf("plain %v", tt.plain), func(t *testing.T) {
			d := newDouble(t)
			var records atomic.Int64
			d.lose = func(f frame.Frame) bool {
				if f.Kind == frame.Data {
					records.Add(1)
				}
				return false
			}
			known := make(chan *streamConn, 1)
			write := make(chan struct{})
			d.Run(t, ExecutorOptions{Serve: func(c websocket.Transport) {
				m, err := c.ReadMessage()
				if err != nil {
					return
				}
				if c.WriteFrames(c.Seal(append(c.Open(nil), m.Bytes()...), 0)) != nil {
					return
				}
				known <- c.(*streamConn)
				<-write
				var batch []byte
				for _, m := range messages {
					batch = c.Seal(append(c.Open(batch), m...), len(batch))
				}
				_ = c.WriteFrames(batch)
				_, _ = c.ReadMessage()
			}})
			c := dial(t, d.harness(HarnessOptions{Plain: tt.plain}))
			if err := exchange(c, message(0, 1)); err != nil {
				t.Fatal(err)
			}
			if s := <-known; !tt.plain {
				await(t, s.s.acking)
			}
			records.Store(0)
			close(write)
			for i, want := range messages {
				if got, err := c.Read(); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("message %d: %d bytes, %v", i, len(got), err)
				}
			}
			if n := records.Load(); n != tt.want {
				t.Errorf("%d records, want %d", n, tt.want)
			}
		})
	}
}

// TestFragments assembles messages from parts of many sizes. One part is longer than a single
// buffer.
func TestFragments(t *testing.T) {
	d := newDouble(t)
	whole := message(7, 5*partSize/2)
	cuts := [][]int{{len(whole)}, {1, partSize, 3, partSize - 5}, {partSize - headerSize, 100}}
	d.Run(t, ExecutorOptions{Serve: func(c websocket.Transport) {
		if _, err := c.ReadMessage(); err != nil {
			return
		}
		room := make([]byte, websocket.FragmentRoom)
		for _, cut := range cuts {
			rest := whole
			for first := true; first || len(rest) > 0; first = false {
				n := len(rest)
				if len(cut) > 0 {
					n, cut = min(n, cut[0]), cut[1:]
				}
				part := append(bytes.Clone(room), rest[:n]...)
				rest = rest[n:]
				if c.Fragment(part, first, len(rest) == 0) != nil {
					return
				}
			}
		}
		_, _ = c.ReadMessage()
	}})
	c := dial(t, d.harness(HarnessOptions{}))
	if err := c.Write(message(0, 1)); err != nil {
		t.Fatal(err)
	}
	for i := range cuts {
		if got, err := c.Read(); err != nil || !bytes.Equal(got, whole) {
			t.Fatalf("message %d: %d bytes, %v", i, len(got), err)
		}
	}
}
