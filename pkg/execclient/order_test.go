package execclient

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codex.internal/pkg/execproto"
)

// TestEventsComeInOrder receives the events of a process in random order, some of them twice,
// and checks the order in which they are returned.
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
		p := newProcess(&Client{done: make(chan struct{}), procs: make(map[string]*Process)}, execproto.StartParams{ProcessID: "p"})
		p.c.procs["p"] = p
		for i, e := range given {
			if err := p.receive(e); err != nil {
				t.Fatal(err)
			}
			if left := len(p.c.procs) == 1; left == p.closed {
				t.Fatalf("after %d events: closed %v, routed %v", i+1, p.closed, left)
			}
		}
		next := uint64(0)
		for e, err := range p.Events(t.Context()) {
			next++
			if err != nil || e.Seq != next {
				t.Fatalf("event %d after %d: %v", e.Seq, next-1, err)
			}
		}
		if state, err := p.WaitClosed(t.Context()); next != uint64(n) || state.Code != n || err != nil {
			t.Fatalf("%d events of %d, %+v, %v", next, n, state, err)
		}
	}
}

// The events that wait for a missing one are bounded in bytes, and the missing one is always
// accepted.
func TestEventsOutOfOrderAreBounded(t *testing.T) {
	const size = maxPendingBytes / 4
	p := newProcess(&Client{done: make(chan struct{}), procs: make(map[string]*Process)}, execproto.StartParams{ProcessID: "p"})
	p.follow(0, nil).stop() // no caller uses it any more
	for seq := uint64(2); seq <= 5; seq++ {
		must(t, p.receive(Event{Seq: seq, Kind: Output, Data: make([]byte, size)}))
		must(t, p.receive(Event{Seq: seq, Kind: Output, Data: make([]byte, size)})) // it counts once
	}
	if err := p.receive(Event{Seq: 6, Kind: Output, Data: []byte("x")}); err == nil || !strings.Contains(err.Error(), "event 1 is missing") {
		t.Errorf("past the bound: %v", err)
	}
	must(t, p.receive(Event{Seq: 1, Kind: Output, Data: make([]byte, 2*size)}))
	if p.last != 5 || p.pendingBytes != 0 || len(p.pending) != 0 {
		t.Errorf("through %d, %d events and %d bytes wait", p.last, len(p.pending), p.pendingBytes)
	}
}

func TestADenialIsToldWithTheExit(t *testing.T) {
	for _, denied := range []bool{false, true} {
		p := newProcess(&Client{done: make(chan struct{})}, execproto.StartParams{ProcessID: "p"})
		must(t, p.receive(Event{Seq: 2, Kind: Closed}))
		must(t, p.receive(Event{Seq: 1, Kind: Exited, ExitCode: 1, SandboxDenied: denied}))
		if state, err := p.Wait(t.Context()); err != nil || state.Code != 1 || state.SandboxDenied != denied {
			t.Errorf("%v: got state %+v, error %v; want no error, state.Code 1, state.SandboxDenied %v", denied, state, err, denied)
		}
	}
}

// TestTheLogIsBounded: old events are dropped, and the newest are kept.
func TestTheLogIsBounded(t *testing.T) {
	p := newProcess(&Client{done: make(chan struct{})}, execproto.StartParams{ProcessID: "p"})
	p.follow(0, nil).stop() // no caller uses it any more
	for seq := range uint64(300) {
		must(t, p.receive(Event{Seq: seq + 1, Kind: Output, Data: make([]byte, 10)}))
	}
	if len(p.log) != maxEvents || p.bytes != 10*maxEvents {
		t.Errorf("%d events, %d bytes", len(p.log), p.bytes)
	}
	must(t, p.receive(Event{Seq: 301, Kind: Output, Data: make([]byte, 2<<20)}))
	must(t, p.receive(Event{Seq: 302, Kind: Exited, ExitCode: 4}))
	must(t, p.receive(Event{Seq: 303, Kind: Closed}))
	if len(p.log) != 2 || p.bytes != 0 {
		t.Errorf("%d events, %d bytes", len(p.log), p.bytes)
	}
	if state, err := p.WaitClosed(t.Context()); err != nil || state.Code != 4 {
		t.Errorf("got state %+v, error %v; want no error, state.Code 4", state, err)
	}
}

func TestMerge(t *testing.T) {
	code := 7
	chunk := func(seqs ...uint64) (chunks []execproto.OutputChunk) {
		for _, seq := range seqs {
			chunks = append(chunks, execproto.OutputChunk{Seq: seq, Stream: execproto.Stdout, Chunk: []byte("x")})
		}
		return chunks
	}
	why := "broke"
	for _, tt := range []struct {
		name string
		have []Event // events beyond event 2
		read execproto.ReadResult
		last uint64
		code int
		text string // part of the error
	}{
		{"nothing new", nil, execproto.ReadResult{Chunks: chunk(1, 2), NextSeq: 3}, 2, -1, ""},
		{"output", nil, execproto.ReadResult{Chunks: chunk(2, 3, 4), NextSeq: 5}, 4, -1, ""},
		{"output that came meanwhile", []Event{{Seq: 5, Kind: Output}}, execproto.ReadResult{Chunks: chunk(3, 4), NextSeq: 5}, 5, -1, ""},
		{"the exit in the middle", nil, execproto.ReadResult{Chunks: chunk(3, 5), NextSeq: 6, Exited: true, ExitCode: &code}, 5, 7, ""},
		{"exit and close", nil, execproto.ReadResult{Chunks: chunk(3), NextSeq: 6, Exited: true, ExitCode: &code, Closed: true}, 5, 7, ""},
		{"an exit that came meanwhile", []Event{{Seq: 3, Kind: Exited, ExitCode: 9}}, execproto.ReadResult{NextSeq: 5, Exited: true, ExitCode: &code, Closed: true}, 4, 9, ""},
		{"a gap", nil, execproto.ReadResult{Chunks: chunk(4), NextSeq: 5}, 2, -1, "process events are no longer retained while recovering through sequence 4"},
		{"two gaps", nil, execproto.ReadResult{Chunks: chunk(4), NextSeq: 6, Exited: true, ExitCode: &code}, 2, -1, "process events are no longer retained while recovering through sequence 5"},
		{"no room for the exit", nil, execproto.ReadResult{Chunks: chunk(3, 4), NextSeq: 5, Exited: true, ExitCode: &code}, 2, -1, "no longer retained"},
		{"output where the close should be", nil, execproto.ReadResult{Chunks: chunk(3, 4), NextSeq: 5, Exited: true, ExitCode: &code, Closed: true}, 2, -1, "process close sequence 4 conflicts with recovered output"},
		{"no exit code", nil, execproto.ReadResult{NextSeq: 4, Exited: true}, 2, -1, "recovering exited process did not include its exit code"},
		{"a failure", nil, execproto.ReadResult{NextSeq: 4, Failure: &why}, 2, -1, "process failed while recovering: broke"},
		{"numbers of no sense", nil, execproto.ReadResult{NextSeq: 1 << 63}, 2, -1, "no longer retained"},
	} {
		p := newProcess(&Client{done: make(chan struct{})}, execproto.StartParams{ProcessID: "p"})
		for _, e := range append([]Event{{Seq: 1, Kind: Output}, {Seq: 2, Kind: Output}}, tt.have...) {
			must(t, p.receive(e))
		}
		err := p.merge(tt.read)
		if tt.text == "" && err != nil || tt.text != "" && (err == nil || !strings.Contains(err.Error(), tt.text)) {
			t.Errorf("%s: got error %v; want no error, an error with %q", tt.name, err, tt.text)
		}
		var lost *EventsLostError
		if errors.As(err, &lost) && lost.After != 2 {
			t.Errorf("%s: lost after %d", tt.name, lost.After)
		}
		if p.last != tt.last || p.exitState().Code != tt.code {
			t.Errorf("%s: through %d, %+v", tt.name, p.last, p.exitState())
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTokensStayAtHome(t *testing.T) {
	for _, url := range []string{"ws://192.0.2.1:1", "ws://example.com:1/?x=secret"} {
		_, err := DialWebSocket(t.Context(), url, Options{BearerToken: "sesame"})
		if err == nil || !strings.Contains(err.Error(), "not sent") || strings.Contains(err.Error(), "secret") {
			t.Errorf(`%s: got error %v; want an error with "not sent", an error without "secret"`, url, err)
		}
	}
}

// TestStall: a consumer takes nothing, or an event from time to time, from a server without
// flow control while the log is full.
func TestStall(t *testing.T) {
	for name, tt := range map[string]struct {
		taken   int // number of consumed events, each just before stallTime ends
		took    time.Duration
		stalled bool
	}{
		"nothing":           {0, stallTime, true},
		"one":               {1, 2*stallTime - time.Millisecond, true},
		"one for each more": {3, 3 * (stallTime - time.Millisecond), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProcess(&Client{done: make(chan struct{})}, execproto.StartParams{ProcessID: "p"})
				f := p.follow(0, nil)
				seq := uint64(0)
				receive := func(n int) {
					for range n {
						seq++
						must(t, p.receive(Event{Seq: seq, Kind: Output, Data: []byte("x")}))
					}
				}
				receive(maxEvents)
				began := time.Now()
				go func() {
					for range tt.taken {
						time.Sleep(stallTime - time.Millisecond)
						_, _ = f.next(t.Context())
					}
				}()
				receive(3)
				if took := time.Since(began); took != tt.took || f.stalled != tt.stalled {
					t.Errorf("took %v, stalled %v", took, f.stalled)
				}
			})
		})
	}
}

// TestASlowConsumerGetsAll: a server without flow control sends events of all sizes faster
// than they are consumed, either in order or so that one event releases many. None may
// leave the log before it is consumed.
func TestASlowConsumerGetsAll(t *testing.T) {
	const events = 3000
	for name, most := range map[string]int{"small": 1 << 10, "large": 16 << 10, "larger": 1 << 18} {
		for _, behind := range []int{1, 100} {
			t.Run(fmt.Sprintf("%s, %d at once", name, behind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newProcess(&Client{done: make(chan struct{})}, execproto.StartParams{ProcessID: "p"})
					f := p.follow(0, nil)
					go func() {
						rng := rand.New(rand.NewPCG(5, uint64(most)))
						for first := 1; first <= events; first += behind {
							for n := behind - 1; n >= 0; n-- {
								if err := p.receive(Event{Seq: uint64(first + n), Kind: Output, Data: make([]byte, rng.IntN(most))}); err != nil {
									t.Errorf("event %d: %v", first+n, err)
								}
							}
						}
					}()
					for seq := uint64(1); seq <= events; {
						e, changed, err := f.take()
						switch {
						case err != nil || e.Kind == 0 && changed == nil:
							t.Fatalf("event %d is gone: %v", seq, err)
						case e.Kind == 0:
							<-changed
						case e.Seq != seq:
							t.Fatalf("event %d came for %d", e.Seq, seq)
						default:
							seq++
							time.Sleep(time.Millisecond)
						}
					}
				})
			})
		}
	}
}

// TestRecoveryDropsNothing: after a lost connection the server's answer has more output than
// the log holds, and the consumer has taken nothing yet.
func TestRecoveryDropsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	p := newProcess(&Client{done: make(chan struct{})}, execproto.StartParams{ProcessID: "p"})
	f := p.follow(0, nil)
	seq := uint64(0)
	for range maxEvents {
		seq++
		must(t, p.receive(Event{Seq: seq, Kind: Output, Data: []byte("x")}))
	}
	r := execproto.ReadResult{NextSeq: 2*maxEvents + 1}
	for range maxEvents {
		seq++
		r.Chunks = append(r.Chunks, execproto.OutputChunk{Seq: seq, Stream: execproto.Stdout, Chunk: []byte("y")})
	}
	must(t, p.merge(r))
	for want := uint64(1); want <= seq; want++ {
		if e, _, err := f.take(); err != nil || e.Seq != want {
			t.Fatalf("event %d came for %d: %v", e.Seq, want, err)
		}
	}
	must(t, p.receive(Event{Seq: seq + 1, Kind: Output, Data: []byte("z")}))
	if len(p.log) != maxEvents {
		t.Errorf("%d events are kept", len(p.log))
	}
}

// TestOutputWaitsForItsFirstConsumer: more output arrives than the log holds before a consumer
// follows the process, or without one.
func TestOutputWaitsForItsFirstConsumer(t *testing.T) {
	for name, tt := range map[string]struct {
		after    time.Duration // time until a consumer follows
		took     time.Duration
		complete bool
	}{
		"soon":     {stallTime / 2, stallTime / 2, true},
		"too late": {2 * stallTime, stallTime, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProcess(&Client{done: make(chan struct{})}, execproto.StartParams{ProcessID: "p"})
				began := time.Now()
				received := make(chan time.Duration)
				go func() {
					for seq := range uint64(maxEvents + 1) {
						if err := p.receive(Event{Seq: seq + 1, Kind: Output, Data: []byte("x")}); err != nil {
							t.Errorf("event %d: %v", seq+1, err)
						}
					}
					received <- time.Since(began)
				}()
				time.Sleep(tt.after)
				f := p.follow(0, nil)
				e, _, err := f.take()
				if complete := e.Seq == 1; err != nil || complete != tt.complete {
					t.Errorf("event %d came first: %v", e.Seq, err)
				}
				if took := <-received; took != tt.took {
					t.Errorf("the connection was held up for %v", took)
				}
			})
		})
	}
}
