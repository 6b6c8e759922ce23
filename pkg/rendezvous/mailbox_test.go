package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

func put(t *testing.T, b *Mailbox, from, text string) {
	t.Helper()
	if sent, err := b.Put(context.Background(), Message{Kind: Frame, From: from, Data: []byte(text)}); !sent || err != nil {
		t.Fatalf("got sent %v, error %v; want sent true, no error", sent, err)
	}
}

func take(t *testing.T, b *Mailbox) string {
	t.Helper()
	m, ok, err := b.Take()
	if !ok || err != nil {
		t.Fatalf("got ok %v, error %v; want ok true, no error", ok, err)
	}
	return m.From + string(m.Data)
}

func TestSendersTakeTurns(t *testing.T) {
	b := NewMailbox(100)
	for i := range 5 {
		put(t, b, "a", fmt.Sprint(i))
	}
	put(t, b, "b", "0")
	put(t, b, "c", "0")
	put(t, b, "b", "1")
	var got []string
	for range 8 {
		got = append(got, take(t, b))
	}
	if want := []string{"a0", "b0", "c0", "a1", "b1", "a2", "a3", "a4"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if len(b.queues) != 0 {
		t.Errorf("%d queues are kept for nothing", len(b.queues))
	}
}

// TestTokensTakeTurns: one token sends through many connections, and another through one.
func TestTokensTakeTurns(t *testing.T) {
	b := NewMailbox(100)
	for _, from := range []string{"a", "b", "c"} {
		for range 2 {
			if _, err := b.Put(t.Context(), Message{Kind: Frame, From: from, Token: "many", Data: []byte("x")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 3 {
		if _, err := b.Put(t.Context(), Message{Kind: Frame, From: "d", Token: "one", Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	var got strings.Builder
	for range 9 {
		m, _, _ := b.Take()
		got.WriteString(m.From)
	}
	if got.String() != "adbdcdabc" {
		t.Errorf(`got %s, want "adbdcdabc"`, got.String())
	}
	if len(b.queues)+len(b.tokens)+len(b.turn) != 0 {
		t.Error("something is kept for nothing")
	}
}

func TestMailboxLimit(t *testing.T) {
	b := NewMailbox(10)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	full := func(from string, size int) bool {
		t.Helper()
		sent, err := b.Put(ended, Message{Kind: Frame, From: from, Data: make([]byte, size)})
		if sent != (err == nil) || err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("got sent %v, error %v; want sent %v, error %v", sent, err, err == nil, context.Canceled)
		}
		return !sent
	}
	if full("a", 6) || full("a", 4) || !full("a", 1) {
		t.Error("10 bytes do not fit, or 11 do")
	}
	if full("b", 11) || !full("b", 1) {
		t.Error("one large frame does not fit, or a second does")
	}
	for range 2 * SourceReplies {
		sent, err := b.Put(ended, Message{Kind: Reply, From: "a", Data: make([]byte, 100)})
		if err != nil {
			t.Fatal(err)
		}
		if !sent {
			break
		}
	}
	if n := b.queues["a"].replies; n != SourceReplies {
		t.Errorf("%d replies", n)
	}
	if sent, err := b.Put(ended, Message{Kind: Left, From: "a"}); !sent || err != nil {
		t.Errorf("the end of a sender: %v, %v", sent, err)
	}
}

func TestPutWaits(t *testing.T) {
	b := NewMailbox(1)
	put(t, b, "a", "0")
	var waiting sync.WaitGroup
	for range 3 { // several at once, although a socket has only one
		waiting.Go(func() { put(t, b, "a", "1") })
	}
	for range 4 {
		eventually(t, func() bool {
			m, ok, err := b.Take()
			return ok && err == nil && m.From == "a"
		})
	}
	waiting.Wait()
}

func TestClosedMailbox(t *testing.T) {
	b := NewMailbox(1)
	put(t, b, "a", "0")
	put(t, b, "b", "0")
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if _, err := b.Put(context.Background(), Message{Kind: Frame, From: "a", Data: []byte("x")}); !errors.Is(err, ErrReplaced) {
			t.Errorf("got error %v, want %v", err, ErrReplaced)
		}
	})
	eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.queues["a"].waiting == 1
	})
	if left := b.Close(ErrReplaced); len(left) != 2 {
		t.Errorf("%d messages were left", len(left))
	}
	waiting.Wait()
	if left := b.Close(ErrNobody); left != nil {
		t.Error("it was closed twice")
	}
	if _, _, err := b.Take(); !errors.Is(err, ErrReplaced) {
		t.Errorf("got error %v, want %v", err, ErrReplaced)
	}
	select {
	case <-b.Ready():
	default:
		t.Error("who waits is not told")
	}
}

func TestBus(t *testing.T) {
	bus := NewLocalBus()
	ctx := context.Background()
	m := Message{Kind: Joined, From: "h"}
	bound := func() bool {
		t.Helper()
		is, err := bus.Bound(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	if _, err := bus.Send(ctx, "x", m); !errors.Is(err, ErrNobody) || bound() {
		t.Errorf("without a mailbox: %v", err)
	}
	former, newer, late := NewMailbox(1), NewMailbox(1), NewMailbox(1)
	if left, err := bus.Bind(ctx, "x", 7, former); left != nil || err != nil || !bound() {
		t.Errorf("got left %v, error %v; want left nil, no error, bound()", left, err)
	}
	if sent, err := bus.Send(ctx, "x", m); !sent || err != nil {
		t.Errorf("got sent %v, error %v; want sent true, no error", sent, err)
	}
	if left, err := bus.Bind(ctx, "x", 8, newer); len(left) != 1 || err != nil {
		t.Errorf("got left %v, error %v; want len(left) 1, no error", left, err)
	}
	if left, err := bus.Bind(ctx, "x", 7, late); left != nil || !errors.Is(err, ErrReplaced) {
		t.Errorf("an earlier generation: %v, %v", left, err)
	}
	if _, _, err := late.Take(); !errors.Is(err, ErrReplaced) {
		t.Errorf("the mailbox that came late: %v", err)
	}
	bus.Unbind("x", former) // not permitted
	if sent, err := bus.Send(ctx, "x", m); !sent || err != nil {
		t.Errorf("to the newer: %v, %v", sent, err)
	}
	newer.Close(closeExecutorGone)
	if _, err := bus.Send(ctx, "x", m); !errors.Is(err, ErrNobody) {
		t.Errorf("closed: %v", err)
	}
	bus.Unbind("x", newer)
	if len(bus.boxes) != 0 || bound() {
		t.Error("an address is kept")
	}
}
