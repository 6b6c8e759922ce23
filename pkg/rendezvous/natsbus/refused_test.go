package natsbus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"codex.internal/pkg/testutil/natstest"
)

// refusals counts the log records of a node about refused connections.
type refusals struct{ n atomic.Int32 }

func (r *refusals) Write(b []byte) (int, error) {
	if bytes.Contains(bytes.ToLower(b), []byte("authorization violation")) {
		r.n.Add(1)
	}
	return len(b), nil
}

// TestRefusedForAWhile: NATS refuses all nodes for a while, because the credentials at NATS and at
// the nodes are not changed at the same moment.
func TestRefusedForAWhile(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	restart := func(password string) {
		s.Kill()
		s.Authorize("node", password)
		s.Restart()
	}
	restart("first")
	var refused refusals
	n, err := Connect(ctxOf(t), Options{Servers: s.URL(), Logger: slog.New(slog.NewTextHandler(&refused, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	restart("second")
	eventually(t, "it is refused again and again", func() bool { return refused.n.Load() > 3 })
	restart("first")
	eventually(t, "it is let in", func() bool { return n.State.Check(ctxOf(t)) == nil })
}

// TestLost makes NATS end the connection permanently, by sending a line that is too long.
func TestLost(t *testing.T) {
	n, err := Connect(ctxOf(t), Options{Servers: natstest.Start(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Wait(over); err != nil {
		t.Errorf("too early: %v", err)
	}
	if err := n.conn.Publish(strings.Repeat("x", 5000), nil); err != nil {
		t.Fatal(err)
	}
	if err := n.Wait(ctxOf(t)); !errors.Is(err, ErrLost) || !strings.Contains(strings.ToLower(err.Error()), "control line") {
		t.Errorf("got %v", err)
	}
}
