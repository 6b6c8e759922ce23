package execserver

import (
	"testing"
	"testing/synctest"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/wire/jsonrpc"
)

// unread is a transport whose client reads nothing until the channel read is closed.
type unread struct {
	discard
	read chan struct{}
}

func (u unread) WriteFrames([]byte) error { <-u.read; return nil }

// TestMemoryIsHeldUntilTheAnswerIsSent: a client makes large requests and does not read the
// answers. The server waits for memory before it makes the next answer. Without that wait, 40
// listings of 100,000 names took 538 MiB.
func TestMemoryIsHeldUntilTheAnswerIsSent(t *testing.T) {
	for _, sent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			srv := &Server{events: new(observe.Events)}
			client := unread{read: make(chan struct{})}
			c := &conn{srv: srv, out: newOutbox(client, srv.events), ctx: t.Context()}
			go c.out.routineWriter()
			freed := false
			go func() {
				rq := &request{c: c, id: jsonrpc.IntID(1)}
				rq.send(reply.Followed{Result: execproto.ReadFileResult{DataBase64: make([]byte, 1<<20)}, Then: func() { freed = true }, Sent: sent})
			}()
			synctest.Wait()
			if freed == sent {
				t.Errorf("Sent %v: before the client has read, got freed %v, want %v", sent, freed, !sent)
			}
			close(client.read)
			synctest.Wait()
			if !freed {
				t.Errorf("Sent %v: got nothing freed after the client has read", sent)
			}
			c.out.end()
		})
	}
}
