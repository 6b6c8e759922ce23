package rendezvous

import (
	"fmt"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/relay/frame"
)

func TestNodeHasTooManyExecutors(t *testing.T) {
	for _, c := range []struct {
		own, all, nodes int
		want            bool
	}{
		{own: 1329, all: 2000, nodes: 3, want: true},
		{own: 527, all: 2000, nodes: 3},
		{own: 734, all: 2000, nodes: 3, want: true}, // 10.05 % more than the mean
		{own: 733, all: 2000, nodes: 3},
		{own: 33, all: 33, nodes: 2, want: true}, // 16.5 more than the mean
		{own: 32, all: 32, nodes: 2},
		{own: 2000, all: 2000, nodes: 1},
		{own: 50, all: 0, nodes: 1},
		{own: 0, all: 0, nodes: 3},
	} {
		b := newBalancer(nil, nil)
		if got := b.tooMany(c.own, c.all, c.nodes); got != c.want {
			t.Errorf("%d of %d executors, %d nodes: got too many %v, want %v", c.own, c.all, c.nodes, got, c.want)
		}
	}
}

// closed is a channel that is closed with the code with which the service closes the peer's websocket.
func (p *peer) closed() <-chan int {
	code := make(chan int, 1)
	go func() {
		defer close(code)
		for {
			_, _, err := p.ws.ReadMessage()
			if e, ok := err.(*websocket.CloseError); ok {
				code <- e.Code
			}
			if err != nil {
				return
			}
		}
	}()
	return code
}

// TestExecutorsAreEvenedOut: a node with too many executors asks one after the other to reconnect,
// after a delay. It spares those with a stream that could not be resumed, and those that it has asked
// before.
func TestExecutorsAreEvenedOut(t *testing.T) {
	s := startTwo(t, Options{PingInterval: checkInterval / 2})
	b := newBalancer(s.Server, s.bus.(PeerBus))
	b.spare = 1
	eventually(t, func() bool { return len(b.peers.Peers()) == 1 })
	const executors = 5 // with a mean of 2.5, three may stay
	bundles, ends := map[string]answer{}, map[string]<-chan int{}
	for i := range executors {
		environment := fmt.Sprint("env", i)
		bundles[environment] = s.register(environment)
		x := s.dial(bundles[environment].URL)
		if i < 2 { // nothing has acknowledged the streams of these
			h := s.harness(environment)
			h.send(handshake("s", "1"))
			x.want("s", frame.Handshake, "1")
			x.send(data("s", 0, "2"))
			h.want("s", frame.Data, "2")
			h.closed()
		}
		ends[environment] = x.closed()
	}
	eventually(t, func() bool { return len(s.staying()) == executors && s.connected() == executors })

	began := time.Now()
	step := func(after time.Duration) (asked int) {
		before := len(b.asked)
		b.step(began.Add(after))
		return len(b.asked) - before
	}
	for after, want := range []int{0: 0, 1: 0, 2: 1, 3: 1, 4: 0} {
		at := time.Duration(after) * balanceDelay / 2
		if got := step(at); got != want {
			t.Fatalf("%v after the imbalance began: got %d executors asked to reconnect, want %d", at, got, want)
		}
	}
	for registration := range b.asked {
		for environment, bundle := range bundles {
			if bundle.ExecutorRegistrationID != registration {
				continue
			}
			if environment == "env0" || environment == "env1" {
				t.Errorf("got an executor asked to reconnect that has a stream without acknowledgements: %s", environment)
			}
			if code := <-ends[environment]; code != websocket.CloseServiceRestart {
				t.Errorf("%s: got close code %d, want %d", environment, code, websocket.CloseServiceRestart)
			}
			s.dial(bundle.URL).closed() // the load balancer has chosen the same node again
		}
	}
	eventually(t, func() bool { return len(s.staying()) == executors })
	// The fifth executor is asked. The others are not asked again, or have streams.
	for after, want := range []int{4: 0, 6: 1, 7: 0, 8: 0} {
		if at := time.Duration(after) * balanceDelay / 2; after >= 4 {
			if got := step(at); got != want {
				t.Errorf("%v after the imbalance began, when executors have come back: got %d asked to reconnect, want %d", at, got, want)
			}
		}
	}
}
