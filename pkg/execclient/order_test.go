package execclient

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestEventsComeInOrder gives a process its events in any order, some of them
// twice, and looks at what comes out.
func TestEventsComeInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		n := 3 + rng.IntN(60)
		events := make([]Event, n)
		for i := range events {
			events[i] = Event{Seq: uint64(i + 1), Kind: Output, Data: []byte{byte(i)}}
		}
		events[n-2].Kind, events[n-1].Kind = Exited, Closed
		events[n-2].ExitCode = n
		given := append(append([]Event{}, events...), events[rng.IntN(n)], events[rng.IntN(n)])
		rng.Shuffle(len(given), func(i, j int) { given[i], given[j] = given[j], given[i] })
		p := &Process{c: &Client{done: make(chan struct{})}, pending: make(map[uint64]Event), changed: make(chan struct{})}
		closed := false
		for _, e := range given {
			closed = p.receive(e) || closed
		}
		if !closed {
			t.Fatal("the end was not told")
		}
		next := uint64(0)
		for e, err := range p.Events(t.Context()) {
			next++
			if err != nil || e.Seq != next {
				t.Fatalf("event %d after %d: %v", e.Seq, next-1, err)
			}
		}
		if code, err := p.Wait(t.Context()); next != uint64(n) || code != n || err != nil {
			t.Fatalf("%d events of %d, exit code %d, %v", next, n, code, err)
		}
	}
}

func TestTokensStayAtHome(t *testing.T) {
	for _, url := range []string{"ws://192.0.2.1:1", "ws://example.com:1/?x=secret"} {
		_, err := DialWebSocket(t.Context(), url, Options{BearerToken: "sesame"})
		if err == nil || !strings.Contains(err.Error(), "not sent") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for host, want := range map[string]bool{"localhost": true, "127.0.0.9": true, "::1": true, "10.0.0.1": false, "": false} {
		if isLoopback(host) != want {
			t.Errorf("isLoopback(%q) = %v", host, !want)
		}
	}
}
