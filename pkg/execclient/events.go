package execclient

import (
	"context"
	"io"
	"iter"

	"codex.internal/pkg/execproto"
)

// EventKind is the kind of an Event.
type EventKind int

// The kinds of events. Closed is the last one of a process.
const (
	Output EventKind = iota + 1
	Exited
	Closed
)

// Event is one event of a process. Data is shared by all followers and must not be changed.
type Event struct {
	Seq      uint64 // numbers the process's events of all kinds, from 1
	Kind     EventKind
	Stream   execproto.Stream
	Data     []byte
	ExitCode int
	// SandboxDenied, of Exited, means that the sandbox probably denied the process something.
	SandboxDenied bool
	// Denials, of Exited, are the hosts that the server's network proxy refused. Servers
	// without this extension report none.
	Denials []execproto.Denial
	// Refusal, of Exited, is the reason why the sandbox could not be set up, so that the command did not run. It is empty if
	// the command ran, and if the connection was lost before the event arrived.
	Refusal string
	// Cause, of Exited, is the reason of the end, and Resources what the process used. Servers
	// without the extension process/limits report neither.
	Cause     execproto.Cause
	Resources *execproto.ProcessResources

	end uint64 // bytes of output through this event
}

// receive adds an event, in any order. The reader of the connection calls it; see waitForRoom.
func (p *Process) receive(e Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.err != nil || e.Seq <= p.last {
		return nil
	}
	_, known := p.pending[e.Seq]
	if len(p.pending) >= maxPending || !known && e.Seq != p.last+1 && p.pendingBytes+len(e.Data) > maxPendingBytes {
		return protocolf("process %s: event %d is missing", p.id, p.last+1)
	}
	p.hold(e)
	p.publish()
	return nil
}

// hold keeps an event until the ones before it have arrived. The lock is held.
func (p *Process) hold(e Event) {
	if _, known := p.pending[e.Seq]; !known && e.Seq > p.last {
		p.pending[e.Seq] = e
		p.pendingBytes += len(e.Data)
	}
}

// publish moves the events that are next in order to the log when it has space: see
// waitForRoom. The caller holds the lock, which publish releases while it waits.
func (p *Process) publish() {
	for {
		e, ok := p.next()
		switch {
		case !ok:
			return
		case p.awaited(len(e.Data)):
			p.waitForRoom(len(e.Data))
			continue // another event may be next now
		}
		for range p.excess(len(e.Data)) {
			p.bytes -= len(p.log[0].Data)
			p.log[0] = Event{}
			p.log = p.log[1:]
		}
		p.append(e)
	}
}

// excess returns how many of the oldest events must leave the log for an event of n bytes.
// Even a too large event is added. The lock is held.
func (p *Process) excess(n int) int {
	count, bytes := 0, p.bytes+n
	for count < len(p.log) && (len(p.log)-count >= maxEvents || bytes > maxEventBytes) {
		bytes -= len(p.log[count].Data)
		count++
	}
	return count
}

// next returns the next event to publish, if it has arrived. The lock is held.
func (p *Process) next() (Event, bool) {
	e, ok := p.pending[p.last+1]
	return e, ok && !p.closed && p.err == nil
}

// append adds an event to the log. The lock is held.
func (p *Process) append(e Event) {
	p.pendingBytes -= len(p.pending[e.Seq].Data)
	delete(p.pending, e.Seq)
	p.last = e.Seq
	p.total += uint64(len(e.Data))
	e.end = p.total
	p.log = append(p.log, e)
	p.bytes += len(e.Data)
	switch e.Kind {
	case Exited:
		exited := e // a copy, so that other events are not allocated
		p.exited = &exited
		p.denied = p.denied || e.SandboxDenied
	case Closed:
		p.closed = true
		p.pending, p.pendingBytes = nil, 0
		p.c.forget(p)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// merge adds the answer of process/read about everything after the last event
// (docs/spec/client.md §2.3).
func (p *Process) merge(r execproto.ReadResult) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Failure != nil {
		return protocolf("process failed while recovering: %s", *r.Failure)
	}
	p.denied = p.denied || r.SandboxDenied
	target := r.NextSeq - 1
	if r.NextSeq == 0 || target <= p.last || p.closed || p.err != nil {
		return nil
	}
	for _, c := range r.Chunks {
		p.hold(Event{Seq: c.Seq, Kind: Output, Stream: c.Stream, Data: c.Chunk})
	}
	if r.Closed {
		p.hold(Event{Seq: target, Kind: Closed})
		if p.pending[target].Kind != Closed {
			return protocolf("process close sequence %d conflicts with recovered output", target)
		}
	}
	missing, first := p.missing(target)
	if r.Exited && !p.knowsExit() {
		if r.ExitCode == nil {
			return protocolf("recovering exited process did not include its exit code")
		}
		if missing == 1 {
			p.hold(Event{
				Seq: first, Kind: Exited, ExitCode: *r.ExitCode, SandboxDenied: r.SandboxDenied,
				Cause: r.Cause, Resources: r.Resources,
			})
			missing = 0
		} else {
			missing = max(missing, 1)
		}
	}
	if missing > 0 {
		return &EventsLostError{
			ProcessID: p.id, After: p.last,
			Err: protocolf("process events are no longer retained while recovering through sequence %d", target),
		}
	}
	// The log may grow by the output that the server retains, until the next event. Waiting
	// for a consumer here would risk that the server drops it.
	for e, ok := p.next(); ok; e, ok = p.next() {
		p.append(e)
	}
	return nil
}

// missing returns how many events through target have not arrived, and the number of the
// first. The lock is held.
func (p *Process) missing(target uint64) (count, first uint64) {
	known := uint64(0)
	for seq := range p.pending {
		if seq <= target {
			known++
		}
	}
	for first = p.last + 1; first <= target; first++ {
		if _, ok := p.pending[first]; !ok {
			break
		}
	}
	return target - p.last - known, first
}

func (p *Process) knowsExit() bool {
	if p.exited != nil {
		return true
	}
	for _, e := range p.pending {
		if e.Kind == Exited {
			return true
		}
	}
	return false
}

// follower is a consumer of a process's events.
type follower struct {
	p         *Process
	at        uint64                      // the number of the last returned event
	end       uint64                      // bytes of output through that event, if exact
	exact     bool                        // end is known
	only      func(execproto.Stream) bool // the requested streams; nil: all
	refetched []Event                     // events that were requested again; next returns them first
	stalled   bool                        // has consumed nothing for stallTime
}

// follow begins to follow a process after the event numbered after.
func (p *Process) follow(after uint64, only func(execproto.Stream) bool) *follower {
	f := &follower{p: p, at: after, only: only, exact: after == 0}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.followers[f] = true
	p.claim()
	return f
}

// stop ends the following.
func (f *follower) stop() {
	f.p.mu.Lock()
	delete(f.p.followers, f)
	f.p.moved()
	f.p.mu.Unlock()
	f.p.maybeAck()
}

// next waits for the next event and returns it, or io.EOF after the last. The previously
// returned event then counts as consumed.
func (f *follower) next(ctx context.Context) (Event, error) {
	f.p.maybeAck()
	for {
		e, changed, err := f.take()
		switch {
		case err != nil:
			return Event{}, err
		case e.Kind != 0:
			return e, nil
		case changed == nil:
			if err := f.refetch(ctx); err != nil {
				return Event{}, err
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// take returns the next event if it has arrived. If it has not, the caller must call take
// again when changed is closed. If it returns neither an event nor an error nor changed, the
// log has dropped the event.
func (f *follower) take() (e Event, changed chan struct{}, err error) {
	p := f.p
	p.mu.Lock()
	defer p.mu.Unlock()
	next := f.at + 1
	switch {
	case len(f.refetched) > 0 && f.refetched[0].Seq == next:
		e = f.refetched[0]
		f.refetched = f.refetched[1:]
	case len(p.log) > 0 && next >= p.log[0].Seq && next <= p.last:
		e = p.log[next-p.log[0].Seq]
	case p.exited != nil && p.exited.Seq == next:
		e = *p.exited
	case next <= p.last:
		return Event{}, nil, p.err
	case p.closed:
		return Event{}, nil, io.EOF
	default:
		return Event{}, p.changed, p.err
	}
	f.at, f.stalled = e.Seq, false
	p.moved()
	f.end += uint64(len(e.Data))
	if e.end > 0 {
		f.end, f.exact = e.end, true
	}
	return e, nil, nil
}

// refetch reads events that the log has dropped again, by process/read.
func (f *follower) refetch(ctx context.Context) error {
	after, most := f.at, uint64(refetchBytes)
	r, err := f.p.read(ctx, execproto.ReadParams{AfterSeq: &after, MaxBytes: &most, WaitMS: new(uint64)})
	if err != nil && !IsCode(err, execproto.CodeInvalidRequest) {
		return err
	}
	f.refetched = nil
	next := after + 1
	for _, c := range r.Chunks {
		if e := f.p.exitEvent(); e != nil && e.Seq == next {
			f.refetched = append(f.refetched, *e)
			next++
		}
		if c.Seq != next {
			break
		}
		f.refetched = append(f.refetched, Event{Seq: c.Seq, Kind: Output, Stream: c.Stream, Data: c.Chunk})
		next++
	}
	if len(f.refetched) > 0 {
		return nil
	}
	lost := &EventsLostError{ProcessID: f.p.id, After: after, Err: err}
	if len(r.Chunks) > 0 {
		lost.Next = r.Chunks[0].Seq
	}
	return lost
}

// Events yields the process's events in order, from the first one to Closed. Every caller gets
// all of them. If the server has flow control, the process is held back until its output is
// consumed. Otherwise events that the log has dropped are requested again.
//
// An error ends the sequence: the context's, that of a session that could not be recovered, or
// an *EventsLostError, after which EventsAfter(ctx, Next-1) continues.
func (p *Process) Events(ctx context.Context) iter.Seq2[Event, error] { return p.EventsAfter(ctx, 0) }

// EventsAfter is Events without the events up to number seq.
func (p *Process) EventsAfter(ctx context.Context, seq uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := p.follow(seq, nil)
		defer f.stop()
		for {
			e, err := f.next(ctx)
			if err != nil {
				yield(Event{}, err)
				return
			}
			if !yield(e, nil) || e.Kind == Closed {
				return
			}
		}
	}
}

// outputReader reads output of a process.
type outputReader struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	f      *follower
	rest   []byte
}

// output returns a reader of the streams for which only is true; nil: all streams.
func (p *Process) output(ctx context.Context, only func(execproto.Stream) bool) io.ReadCloser {
	r := &outputReader{f: p.follow(0, only)}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	return r
}

// Stdout returns the process's standard output, or that of its terminal, as a reader. It ends
// when the process has closed. As with Events, the process is held back until the output is
// read or the reader is closed.
func (p *Process) Stdout(ctx context.Context) io.ReadCloser {
	return p.output(ctx, func(s execproto.Stream) bool { return s != execproto.Stderr })
}

// Stderr returns the process's standard error, as Stdout does.
func (p *Process) Stderr(ctx context.Context) io.ReadCloser {
	return p.output(ctx, func(s execproto.Stream) bool { return s == execproto.Stderr })
}

func (r *outputReader) Read(b []byte) (int, error) {
	for len(r.rest) == 0 || r.ctx.Err() != nil {
		if r.ctx.Err() != nil {
			return 0, context.Cause(r.ctx)
		}
		e, err := r.f.next(r.ctx)
		switch {
		case r.ctx.Err() != nil:
			r.f.stop()
		case err != nil:
			r.end(err)
		case e.Kind == Closed:
			r.end(io.EOF)
		case e.Kind == Output && (r.f.only == nil || r.f.only(e.Stream)):
			r.rest = e.Data
		}
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// end makes further reads fail with an error. From then on the reader does not hold the
// process back.
func (r *outputReader) end(err error) {
	r.cancel(err)
	r.f.stop()
}

// Close ends the reading. It may be called while Read runs.
func (r *outputReader) Close() error {
	r.end(io.ErrClosedPipe)
	return nil
}
