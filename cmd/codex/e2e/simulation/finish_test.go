package simulation

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// finish ends the process, and compares the output that clients have received with the output of the process.
func (w *world) finish(ctx context.Context, owner *execclient.Client, plot string) {
	_, err := w.write(ctx, owner, "quit\n")
	if err != nil {
		w.note("quit: %v", err)
	}
	var seen map[execproto.Stream][]byte
	complete, late := false, false
	if owner == w.a {
		state, err := w.proc.WaitClosed(ctx)
		late = errors.Is(err, execclient.ErrEventsLost) && slices.ContainsFunc(w.machine.named(processName), (*program).forgotten)
		if err != nil && !ended(err) && !late {
			w.failf("waiting for the process: %v", err)
		}
		// A server that ends kills its processes, and reports that if it still can.
		killed := err == nil && state.Code != exitCode
		if killed && plot != "restart" {
			w.failf("exit code %d", state.Code)
		}
		w.wg.Wait()
		seen, complete = w.outputs, err == nil && !killed
		if complete && w.seenErr != nil {
			w.failf("events: %v", w.seenErr)
		}
	} else {
		seen, complete = w.readAll(ctx, owner)
	}
	programs := w.machine.named(processName)
	if len(programs) > 1 {
		w.failf("the process was started %d times", len(programs))
	}
	for _, p := range programs {
		w.compare(execproto.Stdout, p.output(1), seen, complete)
		w.compare(execproto.Stderr, p.output(2), seen, complete)
		op := opObserve
		if complete {
			op = opFinal
		}
		w.call(nobody, input{op: op, lines: p.inputs()})(resultOK)
	}
	w.complete = complete
	w.note("complete: %t, too late: %t", complete, late)
	if w.relayed != nil && !complete && !late && slices.Contains(kept, plot) {
		w.failf("the client has lost its session")
	}
}

func (w *world) compare(s execproto.Stream, said []byte, seen map[execproto.Stream][]byte, complete bool) {
	got := seen[s]
	if complete && !bytes.Equal(got, said) || !bytes.HasPrefix(said, got) {
		w.failf("of %d bytes of %s %d came (complete: %t), the first %d of them as printed", len(said), s, len(got), complete, common(got, said))
	}
}

func common(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// write writes to the process as a client.
func (w *world) write(ctx context.Context, c *execclient.Client, text string) (execproto.WriteStatus, error) {
	if c == w.a {
		return w.proc.Write(ctx, []byte(text))
	}
	id := "b quit"
	for {
		var r execproto.WriteResult
		err := c.Call(ctx, execproto.MethodProcessWrite, &execproto.WriteParams{ProcessID: processName, Chunk: []byte(text), WriteID: &id}, &r)
		if err == nil || ctx.Err() != nil || c.Err() != nil {
			return r.Status, err
		}
	}
}

// readAll reads the retained output of the process from the beginning to the end.
func (w *world) readAll(ctx context.Context, c *execclient.Client) (seen map[execproto.Stream][]byte, complete bool) {
	seen = make(map[execproto.Stream][]byte)
	var after uint64
	wait := uint64(20_000)
	for {
		var r execproto.ReadResult
		err := c.Call(ctx, execproto.MethodProcessRead, &execproto.ReadParams{ProcessID: processName, AfterSeq: &after, WaitMS: &wait}, &r)
		if err != nil {
			w.note("read: %v", err)
			if !ended(err) {
				w.failf("read: %v", err)
			}
			return seen, false
		}
		for _, chunk := range r.Chunks {
			if chunk.Seq <= after {
				w.failf("event %d was read after %d", chunk.Seq, after)
			}
			after = chunk.Seq
			seen[chunk.Stream] = append(seen[chunk.Stream], chunk.Chunk...)
		}
		if r.Closed {
			return seen, true
		}
		after = max(after, r.NextSeq-1)
		w.other.acknowledge(after)
	}
}
