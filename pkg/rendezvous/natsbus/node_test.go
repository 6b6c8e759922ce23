package natsbus

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"codex.internal/pkg/rendezvous"
	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/natstest"
)

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// crash ends a node without notifying the other nodes.
func crash(n *Node) {
	n.stop()
	n.wg.Wait()
	n.conn.Close()
}

func TestDeadNode(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t).URL()
	var log lockedBuffer
	a, err := Connect(t.Context(), Options{Servers: url, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	b := join(t, url)
	x, _ := talking(t, a, b)
	began := time.Now()
	crash(b)
	want(t, x, rendezvous.Lost, "h", "")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	testutil.Eventually(t.Context(), t, "a record of the dead node with its lines", func() (string, bool) {
		text := log.String()
		return text, strings.Contains(text, `level=WARN msg="a node is silent" node=`) && strings.Contains(text, "lines_broken=1 other_nodes=0")
	})
	var metrics strings.Builder
	a.Bus.WriteMetrics(&metrics)
	for _, line := range []string{"rendezvous_nats_connected 1", "rendezvous_nats_lines 0", "rendezvous_nats_lines_broken_total 1"} {
		if !strings.Contains(metrics.String(), line+"\n") {
			t.Errorf("%s is missing in\n%s", line, metrics.String())
		}
	}
}

func TestNodeThatSaysGoodbye(t *testing.T) {
	url := natstest.Start(t).URL()
	a := join(t, url)
	b, err := Connect(ctxOf(t), Options{Servers: url})
	if err != nil {
		t.Fatal(err)
	}
	x, h := talking(t, a, b)
	b.Close()
	want(t, x, rendezvous.Lost, "h", "")
	want(t, h, rendezvous.Lost, "x", "")
}

func TestAddressMoves(t *testing.T) {
	url := natstest.Start(t).URL()
	a, b, c := join(t, url), join(t, url), join(t, url)
	former := bind(t, a, "x", 1)
	here, there := bind(t, a, "h1", 0), bind(t, c, "h2", 0)
	send(t, a, "x", joined("h1"))
	send(t, c, "x", joined("h2"))
	newer := bind(t, b, "x", 2)
	eventually(t, "the former is closed", func() bool {
		a.Bus.mu.RLock()
		defer a.Bus.mu.RUnlock()
		return a.Bus.bound["x"] == nil
	})
	// Until the NATS server knows that the former node has ended, it sends requests to that node
	// too. Its answer that no node has the address may arrive first.
	if err := a.Bus.node.conn.FlushWithContext(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := take(t, former); !errors.Is(err, rendezvous.ErrReplaced) {
		t.Error(err)
	}
	// The bus answers the messages that the former mailbox had not handled.
	want(t, here, rendezvous.Gone, "x", "")
	want(t, there, rendezvous.Lost, "x", "")
	send(t, c, "x", joined("h2"))
	want(t, newer, rendezvous.Joined, "h2", "")
	// A late Bind with a lower generation does not get the address.
	late := bind(t, a, "x", 1)
	if _, err := take(t, late); !errors.Is(err, rendezvous.ErrReplaced) {
		t.Errorf("got error %v, want %v", err, rendezvous.ErrReplaced)
	}
	send(t, c, "x", frameFrom("h2", "still"))
	want(t, newer, rendezvous.Frame, "h2", "still")
}
