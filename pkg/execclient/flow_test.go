package execclient

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codex.internal/pkg/execproto"
)

// TestALaggingConsumer gets dropped events from the server again, and an error for events that
// the server has dropped, too.
func TestALaggingConsumer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newHost(t)
		c, p := h.join(Options{})
		defer c.Close()
		proc := p.run(c, "1")
		const events = 2 * maxEvents
		for seq := range uint64(events) {
			p.output("1", seq+1, fmt.Sprintln(seq+1))
		}
		synctest.Wait()
		dropped := false
		served := background(func() {
			for !dropped {
				var read execproto.ReadParams
				m := p.expect("process/read", &read)
				dropped = *read.AfterSeq >= 100
				r := execproto.ReadResult{NextSeq: events + 1}
				for seq := *read.AfterSeq + 1; seq <= min(events, *read.AfterSeq+50) && !dropped; seq++ {
					r.Chunks = append(r.Chunks, execproto.OutputChunk{Seq: seq, Stream: execproto.Stdout, Chunk: fmt.Appendln(nil, seq)})
				}
				p.answer(m, r)
			}
		})
		var next uint64
		var failed error
		for e, err := range proc.Events(t.Context()) {
			if failed = err; err != nil {
				break
			}
			if next++; e.Seq != next || string(e.Data) != fmt.Sprintln(next) {
				t.Fatalf("%d: got e.Seq %d, e.Data %q; want e.Seq %d, e.Data fmt.Sprintln(next)", next, e.Seq, e.Data, next)
			}
		}
		<-served
		var lost *EventsLostError
		if !errors.As(failed, &lost) || lost.After != 100 || next != 100 {
			t.Errorf("after %d: %v", next, failed)
		}
	})
}

// TestFlowControl: consumed output is acknowledged, and again after a lost connection.
func TestFlowControl(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newHost(t)
		c, p := h.join(Options{}, execproto.NotifyProcessAck)
		defer c.Close()
		done := make(chan *Process, 1)
		go func() {
			proc, _ := c.Start(t.Context(), execproto.StartParams{ProcessID: "1", Argv: []string{"x"}, Cwd: "/"})
			done <- proc
		}()
		var start execproto.StartParams
		p.answer(p.expect("process/start", &start), execproto.StartResult{})
		if start.OutputWindow != outputWindow {
			t.Errorf("the window is %d", start.OutputWindow)
		}
		proc := <-done
		chunk := strings.Repeat("x", 64<<10)
		for seq := range uint64(6) {
			p.output("1", seq+1, chunk)
		}
		synctest.Wait()
		if len(p.in) > 0 {
			t.Fatalf("%s came although nobody consumes", <-p.in)
		}
		f := proc.follow(0, nil)
		take := func() {
			_, err := f.next(t.Context())
			must(t, err)
			synctest.Wait()
		}
		acked := func(want uint64) {
			t.Helper()
			var ack execproto.ProcessAck
			if p.expect("process/ack", &ack); ack.Seq != want || ack.ProcessID != "1" {
				t.Errorf(`got %+v; want ack.Seq %v, ack.ProcessID "1"`, ack, want)
			}
		}
		take()
		take()
		if len(p.in) > 0 {
			t.Fatalf("%s came", <-p.in)
		}
		take()
		acked(2)
		time.Sleep(calmTime)
		p.cut()
		p = <-h.peers
		p.greet()
		p.answer(p.expect("process/read", nil), execproto.ReadResult{NextSeq: 7})
		acked(2)
		f.stop()
		proc.Release()
		acked(ackAll)
	})
}
