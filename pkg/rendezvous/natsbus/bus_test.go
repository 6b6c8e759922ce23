package natsbus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"codex.internal/pkg/rendezvous"
	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/natstest"
)

// patience is how long tests wait for an event that must come.
const patience = 30 * time.Second

// eventually polls for a condition that no event reports.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	testutil.Eventually(t.Context(), t, what, func() (string, bool) { return "not yet", done() })
}

// join returns a node that ends with the test.
func join(t testing.TB, servers string) *Node {
	t.Helper()
	n, err := Connect(context.Background(), Options{Servers: servers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

func ctxOf(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// bind binds an address to a new mailbox.
func bind(t testing.TB, n *Node, address string, generation uint64) *rendezvous.Mailbox {
	t.Helper()
	box := rendezvous.NewMailbox(rendezvous.SourceBytes)
	if left, err := n.Bus.Bind(ctxOf(t), address, generation, box); err != nil || len(left) != 0 {
		t.Fatalf("%d left, %v", len(left), err)
	}
	return box
}

func send(t testing.TB, n *Node, to string, m rendezvous.Message) {
	t.Helper()
	if sent, err := n.Bus.Send(ctxOf(t), to, m); !sent || err != nil {
		t.Fatalf("got sent %v, error %v; want sent true, no error", sent, err)
	}
}

func frameFrom(from, text string) rendezvous.Message {
	return rendezvous.Message{Kind: rendezvous.Frame, From: from, Stream: "s", Data: []byte(text)}
}

func joined(from string) rendezvous.Message {
	return rendezvous.Message{Kind: rendezvous.Joined, From: from, Token: "token", Identity: "identity"}
}

// take waits for the next message, and calls its Done.
func take(t testing.TB, box *rendezvous.Mailbox) (rendezvous.Message, error) {
	t.Helper()
	for {
		m, ok, err := box.Take()
		if ok && m.Done != nil {
			m.Done()
		}
		if ok || err != nil {
			return m, err
		}
		select {
		case <-box.Ready():
		case <-time.After(patience):
			t.Fatal("no message comes")
		}
	}
}

func want(t testing.TB, box *rendezvous.Mailbox, kind rendezvous.MessageKind, from, text string) {
	t.Helper()
	m, err := take(t, box)
	if err != nil || m.Kind != kind || m.From != from || string(m.Data) != text {
		t.Fatalf("kind %d from %q: %q, %v; want kind %d from %q: %q", m.Kind, m.From, m.Data, err, kind, from, text)
	}
}

// openLine makes the address h at one node join x at another node, which does not know h yet.
func openLine(t testing.TB, at, from *Node) (x, h *rendezvous.Mailbox) {
	t.Helper()
	x, h = bind(t, at, "x", 1), bind(t, from, "h", 0)
	send(t, from, "x", joined("h"))
	return x, h
}

// talking calls openLine, and then receives the first message at x.
func talking(t testing.TB, at, from *Node) (x, h *rendezvous.Mailbox) {
	t.Helper()
	x, h = openLine(t, at, from)
	want(t, x, rendezvous.Joined, "h", "")
	return x, h
}

func TestBus(t *testing.T) {
	url := natstest.Start(t).URL()
	a, b := join(t, url), join(t, url)
	ctx := ctxOf(t)
	x := bind(t, a, "executor.1", 1)
	h := bind(t, b, "harness.1", 0)
	if is, err := b.Bus.Bound(ctx, "executor.1"); !is || err != nil {
		t.Errorf("got is %v, error %v; want is true, no error", is, err)
	}
	if is, err := b.Bus.Bound(ctx, "executor.2"); is || err != nil {
		t.Errorf("got is %v, error %v; want is false, no error", is, err)
	}
	for _, to := range []string{"executor.2", "executor.*", "", "executor 1"} {
		if _, err := b.Bus.Send(ctx, to, joined("harness.1")); !errors.Is(err, rendezvous.ErrNobody) {
			t.Errorf("to %q: %v", to, err)
		}
	}
	if _, err := b.Bus.Send(ctx, "executor.1", frameFrom("harness.1", "early")); !errors.Is(err, rendezvous.ErrNobody) {
		t.Errorf("before it has joined: %v", err)
	}
	send(t, b, "executor.1", joined("harness.1"))
	m, err := take(t, x)
	if err != nil || m.Kind != rendezvous.Joined || m.From != "harness.1" || m.Token != "token" || m.Identity != "identity" {
		t.Errorf(`got m %+v, error %v; want no error, m.Kind %v, m.From "harness.1", m.Token "token", m.Identity "identity"`, m, err, rendezvous.Joined)
	}
	for i := range 100 {
		send(t, b, "executor.1", frameFrom("harness.1", fmt.Sprint("up ", i)))
		send(t, a, "harness.1", frameFrom("executor.1", fmt.Sprint("down ", i)))
	}
	for i := range 100 {
		want(t, x, rendezvous.Frame, "harness.1", fmt.Sprint("up ", i))
		want(t, h, rendezvous.Frame, "executor.1", fmt.Sprint("down ", i))
	}
	// When a node ends, the other node notices at once.
	b.Bus.Unbind("harness.1", h)
	want(t, x, rendezvous.Lost, "harness.1", "")
	if _, err := a.Bus.Send(ctx, "harness.1", frameFrom("executor.1", "late")); !errors.Is(err, rendezvous.ErrNobody) {
		t.Errorf("got error %v, want %v", err, rendezvous.ErrNobody)
	}
	a.Bus.Unbind("executor.1", x)
	if is, err := b.Bus.Bound(ctx, "executor.1"); is || err != nil {
		t.Errorf("after its end: %v, %v", is, err)
	}
	for _, n := range []*Node{a, b} {
		eventually(t, "nothing is kept", func() bool {
			n.Bus.mu.Lock()
			defer n.Bus.mu.Unlock()
			return len(n.Bus.lines)+len(n.Bus.pairs)+len(n.Bus.ends)+len(n.Bus.bound) == 0
		})
	}
}

// TestWindow: a reader takes nothing, so the sender waits. When there is space, the sender
// continues, and at the end its quota is released.
func TestWindow(t *testing.T) {
	url := natstest.Start(t).URL()
	a, b := join(t, url), join(t, url)
	x, _ := openLine(t, a, b)
	var mu sync.Mutex
	held := 0
	m := frameFrom("h", strings.Repeat("p", 100_000))
	add := func(n int) { mu.Lock(); held += n; mu.Unlock() }
	m.Done = func() { add(-1) }
	short, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	n := 0
	for ; ; n++ {
		add(1)
		if _, err := b.Bus.Send(short, "x", m); err != nil {
			add(-1)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			break
		}
	}
	if most := lineBytes / len(m.Data); n != most {
		t.Errorf("%d frames are under way, want %d", n, most)
	}
	var sending sync.WaitGroup
	const more = 200
	sending.Go(func() {
		for range more {
			add(1)
			send(t, b, "x", m)
		}
	})
	want(t, x, rendezvous.Joined, "h", "")
	for range n + more {
		want(t, x, rendezvous.Frame, "h", string(m.Data))
	}
	sending.Wait()
	eventually(t, "all is given back", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return held == 0
	})
}

func TestRepliesAreBounded(t *testing.T) {
	url := natstest.Start(t).URL()
	a, b := join(t, url), join(t, url)
	_, h := talking(t, a, b)
	reply := rendezvous.Message{Kind: rendezvous.Reply, From: "x", Data: []byte("r")}
	n := 0
	for ; ; n++ {
		sent, err := a.Bus.Send(canceled, "h", reply)
		if err != nil {
			t.Fatal(err)
		}
		if !sent {
			break
		}
	}
	if n != lineReplies {
		t.Errorf("%d replies", n)
	}
	for range n {
		want(t, h, rendezvous.Reply, "x", "r")
	}
	eventually(t, "there is room again", func() bool {
		sent, err := a.Bus.Send(canceled, "h", reply)
		return sent && err == nil
	})
}

// TestLostMessage loses a message between two others, and a message that is followed by no other.
// Both are retransmitted, and none arrives twice.
func TestLostMessage(t *testing.T) {
	for name, follows := range map[string]int{"in between": 50, "the last": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := natstest.Start(t).URL()
			a, b := join(t, url), join(t, url)
			x, _ := openLine(t, a, b)
			send(t, b, "x", frameFrom("h", "first"))
			l := b.Bus.pairs[pair{"h", "x"}]
			lost := frameFrom("h", "lost")
			l.mu.Lock()
			l.count(&lost) // as if it had been sent
			l.mu.Unlock()
			for n := range follows {
				send(t, b, "x", frameFrom("h", fmt.Sprint(n)))
			}
			want(t, x, rendezvous.Joined, "h", "")
			want(t, x, rendezvous.Frame, "h", "first")
			want(t, x, rendezvous.Frame, "h", "lost")
			for n := range follows {
				want(t, x, rendezvous.Frame, "h", fmt.Sprint(n))
			}
			eventually(t, "all is confirmed", func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return len(l.pending) == 0
			})
			// A late request finds the messages still there.
			if err := l.sendAgain(1, time.Now()); err != nil {
				t.Error(err)
			}
			send(t, b, "x", frameFrom("h", "end"))
			want(t, x, rendezvous.Frame, "h", "end")
		})
	}
}

// TestServerOfAClusterEnds kills each server of a cluster while two nodes exchange messages.
// Messages that the server had not forwarded are retransmitted. Large frames are written
// immediately, so a server may end during the write of one of them.
func TestServerOfAClusterEnds(t *testing.T) {
	t.Parallel()
	for name, each := range map[string]struct{ frames, size int }{"small frames": {2000, 0}, "large frames": {400, 64 << 10}} {
		t.Run(name, func(t *testing.T) {
			filler := strings.Repeat(" ", each.size)
			c := natstest.StartCluster(t, 3)
			a, b := join(t, c.URLs()), join(t, c.URLs())
			x := bind(t, a, "x", 1)
			bind(t, b, "h", 0)
			eventually(t, "the cluster knows x", func() bool {
				known, err := b.Bus.Bound(ctxOf(t), "x")
				return known && err == nil
			})
			send(t, b, "x", joined("h"))
			want(t, x, rendezvous.Joined, "h", "")
			for _, server := range c {
				var sending sync.WaitGroup
				sending.Go(func() {
					for n := range each.frames {
						if sent, err := b.Bus.Send(ctxOf(t), "x", frameFrom("h", fmt.Sprint(n, filler))); !sent || err != nil {
							t.Errorf("frame %d: %v, %v", n, sent, err)
							return
						}
					}
				})
				for n := range each.frames {
					want(t, x, rendezvous.Frame, "h", fmt.Sprint(n, filler))
					if n == each.frames/2 {
						server.Kill()
					}
				}
				sending.Wait()
				server.Restart()
			}
		})
	}
}

// TestLostAcknowledgement loses the acknowledgement for which the sender waits.
func TestLostAcknowledgement(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t).URL()
	a, b := join(t, url), join(t, url)
	x, _ := openLine(t, a, b)
	l := b.Bus.pairs[pair{"h", "x"}]
	eventually(t, "the first is confirmed", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.received == 1
	})
	other := a.Bus.pairs[pair{"x", "h"}]
	want(t, x, rendezvous.Joined, "h", "")
	other.mu.Lock()
	other.reported.done, other.unreported = other.done, 0 // as if it had been sent
	other.mu.Unlock()
	eventually(t, "it asks", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.pending) == 0
	})
}

// TestLateBind: a connection takes its address on the node where a newer
// connection has just taken it.
func TestLateBind(t *testing.T) {
	url := natstest.Start(t).URL()
	a, b := join(t, url), join(t, url)
	newer := bind(t, a, "x", 2)
	late := rendezvous.NewMailbox(rendezvous.SourceBytes)
	if err := a.Bus.subscribe(ctxOf(t), "x", 1, late); !errors.Is(err, rendezvous.ErrReplaced) {
		t.Errorf("got error %v, want %v", err, rendezvous.ErrReplaced)
	}
	a.Bus.Unbind("x", late)
	bind(t, b, "h", 0)
	send(t, b, "x", joined("h"))
	want(t, newer, rendezvous.Joined, "h", "")
}

// TestHalfOpenLine: a line ends at one node, the other node is not notified, and neither sends a
// message.
func TestHalfOpenLine(t *testing.T) {
	url := natstest.Start(t).URL()
	a, b := join(t, url), join(t, url)
	x, h := talking(t, a, b)
	a.Bus.findHalfOpen() // it is not
	a.Bus.end(a.Bus.pairs[pair{"x", "h"}], errLost, notifyNone)
	b.Bus.findHalfOpen()
	want(t, h, rendezvous.Lost, "x", "")
	if m, ok, err := x.Take(); ok || err != nil {
		t.Errorf("got m %+v, error %v; want ok false, no error", m, err)
	}
}

// TestNothingFollowsTheEnd ends many lines while messages arrive. The message that reports the end
// must be the last one.
func TestNothingFollowsTheEnd(t *testing.T) {
	a := join(t, natstest.Start(t).URL())
	var lines sync.WaitGroup
	defer lines.Wait()
	for n := range byte(100) {
		lines.Go(func() {
			for range 100 {
				if kind := lastOfLine(t, a.Bus, lineID{n}); kind != rendezvous.Lost {
					t.Errorf("kind %d comes after the end", kind)
				}
			}
		})
	}
}

// lastOfLine ends a line while messages arrive, and returns the kind of the last message.
func lastOfLine(t *testing.T, b *Bus, id lineID) (last rendezvous.MessageKind) {
	box := rendezvous.NewMailbox(rendezvous.SourceBytes)
	l := b.newLine(id, "x", fmt.Sprint("h", id[0]), box)
	b.add(l)
	var taking sync.WaitGroup
	taking.Go(func() {
		for number := uint64(1); number <= 200; number++ {
			if _, err := l.take(number, frameFrom("h", "x")); err != nil {
				t.Error(err)
			}
		}
	})
	<-box.Ready()
	b.end(l, errLost, notifyLocal)
	taking.Wait()
	for {
		m, ok, err := box.Take()
		if err != nil {
			t.Error(err)
		}
		if !ok {
			return last
		}
		last = m.Kind
	}
}

// TestRestart restarts NATS while two nodes exchange messages. If messages in flight are lost, both
// nodes must notice.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	a, b := join(t, s.URL()), join(t, s.URL())
	x, h := talking(t, a, b)
	s.Kill()
	eventually(t, "it is noticed", func() bool { return b.State.Check(ctxOf(t)) != nil })
	began := time.Now()
	if _, err := b.Bus.Bound(ctxOf(t), "y"); !errors.Is(err, rendezvous.ErrUnavailable) || time.Since(began) > callTime+time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	s.Restart()
	eventually(t, "it is there again", func() bool { return a.State.Check(ctxOf(t)) == nil && b.State.Check(ctxOf(t)) == nil })
	if _, err := b.Bus.Send(ctxOf(t), "x", frameFrom("h", "after")); err != nil {
		want(t, h, rendezvous.Lost, "x", "")
		want(t, x, rendezvous.Lost, "h", "")
		send(t, b, "x", joined("h"))
		want(t, x, rendezvous.Joined, "h", "")
		send(t, b, "x", frameFrom("h", "after"))
	}
	want(t, x, rendezvous.Frame, "h", "after")
}
