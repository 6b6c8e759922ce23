package execclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codex.internal/pkg/execproto"
)

// A model of a server with one process, whose connections are cut at random.

type model struct {
	dice     sync.Mutex
	rng      *rand.Rand
	h        *host
	windowed bool
	retain   int // in bytes

	mu      sync.Mutex
	changed *sync.Cond
	events  []Event // all events so far
	first   int     // index of the oldest output that is retained
	kept    int
	started bool
	acked   uint64
	in      []byte
	writes  map[string]bool
	peer    *peer // the attached connection
	stopped bool
}

func (m *model) roll(n int) int {
	m.dice.Lock()
	defer m.dice.Unlock()
	return m.rng.IntN(n)
}

// add adds an event of the process. With flow control it waits.
func (m *model) add(e Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.windowed && m.unacked() >= m.retain/2 && !m.stopped {
		m.changed.Wait()
	}
	e.Seq = uint64(len(m.events) + 1)
	m.events = append(m.events, e)
	m.kept += len(e.Data)
	for m.kept > m.retain {
		m.kept -= len(m.events[m.first].Data)
		m.first++
	}
	if m.peer != nil {
		m.send(m.peer, e)
	}
}

func (m *model) unacked() int {
	n := 0
	for _, e := range m.events[min(m.acked, uint64(len(m.events))):] {
		n += len(e.Data)
	}
	return n
}

// send sends an event, unless the connection is cut at that moment.
func (m *model) send(p *peer, e Event) {
	var text []byte
	switch e.Kind {
	case Output:
		text = execproto.AppendOutput(nil, "1", e.Seq, e.Stream, e.Data)
	case Exited:
		text = execproto.Notify(&execproto.ExitedNotification{ProcessID: "1", Seq: e.Seq, ExitCode: e.ExitCode})(nil)
	case Closed:
		text = execproto.Notify(&execproto.ClosedNotification{ProcessID: "1", Seq: e.Seq})(nil)
	}
	select {
	case p.out <- text:
	case <-p.down:
	}
}

// serve answers requests on one connection until it is cut, after a limited number of
// requests.
func (m *model) serve(p *peer) {
	for range 3 + m.roll(20) {
		var text []byte
		select {
		case text = <-p.in:
		case <-p.down:
			return
		case <-time.After(time.Duration(1+m.roll(50)) * time.Millisecond):
			if m.roll(4) == 0 && !m.over() {
				m.cut(p)
				return
			}
			continue
		}
		before, after := m.roll(12) == 0 && !m.over(), m.roll(12) == 0 && !m.over()
		if before { // the request is lost
			m.cut(p)
			return
		}
		answer := m.handle(p, text)
		if after { // the answer is lost
			m.cut(p)
			return
		}
		if answer != nil {
			select {
			case p.out <- answer:
			case <-p.down:
				return
			}
		}
	}
	if m.over() {
		<-p.down
		return
	}
	m.cut(p)
}

func (m *model) over() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stopped
}

// cut ends a connection and drops some of the messages in flight.
func (m *model) cut(p *peer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.peer == p {
		m.peer = nil
	}
	for range m.roll(5) {
		select {
		case <-p.out:
		default:
		}
	}
	p.cut()
}

func (m *model) handle(p *peer, text []byte) []byte {
	msg := decode(m.h.t, text)
	result := appender(execproto.Empty{})
	refusal := ""
	m.mu.Lock()
	defer m.mu.Unlock()
	switch msg.Method {
	case execproto.MethodInitialize:
		m.peer = p
		r := execproto.InitializeResult{SessionID: "s"}
		if m.windowed {
			r.Extensions = []string{execproto.NotifyProcessAck}
		}
		result = r
	case execproto.NotifyInitialized:
		return nil
	case execproto.NotifyProcessAck:
		var ack execproto.ProcessAck
		must(m.h.t, execproto.DecodeTo(msg.Params, &ack))
		m.acked = max(m.acked, ack.Seq)
		m.changed.Broadcast()
		return nil
	case execproto.MethodProcessStart:
		if m.started {
			refusal = "process ID already exists"
		}
		m.started = true
		m.changed.Broadcast()
		result = execproto.StartResult{ProcessID: "1"}
	case execproto.MethodProcessRead:
		var read execproto.ReadParams
		must(m.h.t, execproto.DecodeTo(msg.Params, &read))
		result = m.read(read)
	case execproto.MethodProcessWrite:
		var w execproto.WriteParams
		must(m.h.t, execproto.DecodeTo(msg.Params, &w))
		if !m.writes[*w.WriteID] {
			m.writes[*w.WriteID] = true
			m.in = append(m.in, w.Chunk...)
		}
		result = execproto.WriteResult{Status: execproto.WriteAccepted}
	}
	if refusal != "" {
		return fmt.Appendf(nil, `{"id":%s,"error":{"code":-32600,"message":%q}}`, msg.ID, refusal)
	}
	return fmt.Appendf(nil, `{"id":%s,"result":%s}`, msg.ID, result.AppendJSON(nil))
}

func (m *model) read(read execproto.ReadParams) execproto.ReadResult {
	r := execproto.ReadResult{NextSeq: uint64(len(m.events) + 1), Chunks: []execproto.OutputChunk{}}
	size := 0
	for i, e := range m.events {
		if code := e.ExitCode; e.Kind == Exited {
			r.Exited, r.ExitCode = true, &code
		}
		r.Closed = r.Closed || e.Kind == Closed
		if e.Kind != Output || i < m.first || e.Seq <= *read.AfterSeq {
			continue
		}
		if size += len(e.Data); read.MaxBytes != nil && size > int(*read.MaxBytes) && len(r.Chunks) > 0 {
			r.NextSeq = e.Seq
			break
		}
		r.Chunks = append(r.Chunks, execproto.OutputChunk{Seq: e.Seq, Stream: e.Stream, Chunk: e.Data})
	}
	return r
}

// TestNothingIsLostOrRepeated lets a process write and read over connections that are cut at
// random. With flow control everything arrives. Without it, everything arrives up to the event
// that the error names.
func TestNothingIsLostOrRepeated(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	lost := 0
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			if !runModel(t, seed) {
				lost++
			}
			if t.Failed() {
				t.Fatalf("with seed %d", seed)
			}
		})
	}
	if lost == 0 {
		t.Error("nothing was ever lost: the retention is not tested")
	}
}

func runModel(t *testing.T, seed uint64) (all bool) {
	rng := rand.New(rand.NewPCG(seed, 1))
	m := &model{
		rng: rand.New(rand.NewPCG(seed, 2)), h: newHost(t), windowed: seed%2 == 0, writes: make(map[string]bool),
		retain: []int{4 << 20, 20_000, 2 * outputWindow}[rng.IntN(2)*rng.IntN(2)],
	}
	if m.windowed {
		m.retain = 2 * outputWindow
	}
	m.changed = sync.NewCond(&m.mu)
	var wg sync.WaitGroup
	quit := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case p := <-m.h.peers:
				wg.Go(func() { m.serve(p) })
			case <-quit:
				return
			}
		}
	})
	c := m.dial(t)
	defer func() {
		m.mu.Lock()
		m.stopped = true
		m.changed.Broadcast()
		m.mu.Unlock()
		_ = c.Close()
		close(quit)
		wg.Wait()
	}()
	proc, err := c.Start(t.Context(), execproto.StartParams{ProcessID: "1", Argv: []string{"x"}, Cwd: "/"})
	must(t, err)
	var said []byte
	wg.Go(func() { said = m.speak(rng) })
	var wrote bytes.Buffer
	wg.Go(func() {
		in := proc.Stdin(t.Context())
		for i := range 20 {
			line := fmt.Sprintln("line", i)
			if _, err := io.WriteString(in, line); err != nil {
				if m.windowed || !errors.Is(err, ErrEventsLost) {
					t.Errorf("write: %v", err)
				}
				return
			}
			wrote.WriteString(line)
		}
	})
	var heard []byte
	lag := rand.New(rand.NewPCG(seed, 3))
	for e, err := range proc.Events(t.Context()) {
		if err != nil {
			if m.windowed || !errors.Is(err, ErrEventsLost) {
				t.Errorf("got error %v; want m.windowed false, %v", err, ErrEventsLost)
			}
			break
		}
		heard = append(heard, e.Data...)
		all = e.Kind == Closed
		if lag.IntN(10) == 0 {
			time.Sleep(time.Duration(lag.IntN(30)) * time.Millisecond)
		}
	}
	m.mu.Lock()
	m.acked = ackAll // so that it ends in any case
	m.changed.Broadcast()
	m.mu.Unlock()
	synctest.Wait()
	time.Sleep(time.Minute)
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if all && !bytes.Equal(heard, said) || !bytes.HasPrefix(said, heard) {
		t.Errorf("%d bytes were said, %d heard", len(said), len(heard))
	}
	if all && !bytes.Equal(m.in, wrote.Bytes()) {
		t.Errorf("wrote %q, the process got %q", wrote.Bytes(), m.in)
	}
	return all
}

// dial tries until a connection lives long enough.
func (m *model) dial(t *testing.T) *Client {
	for {
		c, err := Dial(t.Context(), m.h, Options{RecoveryTimeout: time.Hour})
		if err == nil {
			return c
		}
	}
}

// speak makes the process write, read and end.
func (m *model) speak(rng *rand.Rand) []byte {
	m.mu.Lock()
	for !m.started && !m.stopped {
		m.changed.Wait()
	}
	m.mu.Unlock()
	var said []byte
	for n := range 30 + rng.IntN(600) {
		size := 1 + rng.IntN(100)
		if rng.IntN(20) == 0 {
			size = rng.IntN(64 << 10)
		}
		data := bytes.Repeat([]byte{byte(n)}, size)
		said = append(said, data...)
		m.add(Event{Kind: Output, Stream: execproto.Stdout, Data: data})
		if rng.IntN(10) == 0 {
			time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
		}
	}
	m.add(Event{Kind: Exited, ExitCode: 5})
	m.add(Event{Kind: Output, Stream: execproto.Stderr, Data: []byte("late")})
	m.add(Event{Kind: Closed})
	return append(said, "late"...)
}
