package execclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"sync"

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

// Event is one thing that happened to a process. Data belongs to the
// receiver.
type Event struct {
	Seq      uint64
	Kind     EventKind
	Stream   execproto.Stream
	Data     []byte
	ExitCode int
	// SandboxDenied says, with Exited, that the sandbox probably denied the
	// process something.
	SandboxDenied bool
}

// Process is a process on the server. Its methods may be called from any
// goroutine; its events are for one consumer.
//
// The server numbers events; they are put in order here. Until somebody
// consumes them the newest maxEvents are kept and older ones are asked for
// again. A consumer that is slow slows the whole connection, so it should not
// wait for other calls on the same client.
type Process struct {
	c       *Client
	id      string
	sandbox string // as the server calls it

	mu       sync.Mutex
	pending  map[uint64]Event // came out of order
	last     uint64           // newest event that is in order
	log      []Event          // in order, not consumed yet
	bytes    int
	taken    uint64 // newest event that was consumed or dropped
	consumed bool   // somebody consumes: drop nothing
	closed   bool
	exit     *int
	denied   bool
	err      error
	changed  chan struct{} // closed and replaced on every change
	writeID  uint64
}

// Start starts a process. The id in the params must be new to the session.
func (c *Client) Start(ctx context.Context, params execproto.StartParams) (*Process, error) {
	p := &Process{c: c, id: params.ProcessID, pending: make(map[uint64]Event), changed: make(chan struct{})}
	c.mu.Lock()
	switch {
	case c.err != nil:
		defer c.mu.Unlock()
		return nil, c.err
	case c.procs[p.id] != nil:
		defer c.mu.Unlock()
		return nil, protocolf("session already registered for process %s", p.id)
	}
	c.procs[p.id] = p
	c.mu.Unlock()
	if params.Env == nil {
		params.Env = map[string]string{}
	}
	var r execproto.StartResult
	if err := c.Call(ctx, execproto.MethodProcessStart, params, &r); err != nil {
		c.forget(p)
		return nil, err
	}
	p.sandbox = r.SandboxType
	return p, nil
}

// SandboxType is what the server says confines the process; "none" if nothing
// does, empty if the server does not tell.
func (p *Process) SandboxType() string { return p.sandbox }

// SandboxDenied reports, once the process has exited, whether its sandbox
// probably denied it something.
func (p *Process) SandboxDenied() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.denied
}

// ID returns the process's id.
func (p *Process) ID() string { return p.id }

// receive takes an event in whatever order it comes and reports whether the
// process has closed.
func (p *Process) receive(e Event) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.err != nil || e.Seq <= p.last {
		return false
	}
	if _, known := p.pending[e.Seq]; known {
		return false
	}
	p.pending[e.Seq] = e
	for {
		next, ok := p.pending[p.last+1]
		if !ok {
			return false
		}
		p.waitForRoom()
		if p.err != nil {
			return false
		}
		delete(p.pending, next.Seq)
		p.publish(next)
		if next.Kind == Closed {
			return true
		}
	}
}

// waitForRoom blocks while a consumer is behind. The lock is given up
// meanwhile; only the client's reader comes here.
func (p *Process) waitForRoom() {
	for p.consumed && p.err == nil && (len(p.log) >= maxEvents || p.bytes >= maxEventBytes) {
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-p.c.done:
			p.mu.Lock()
			return
		}
		p.mu.Lock()
	}
}

// publish appends the next event. The caller holds the lock.
func (p *Process) publish(e Event) {
	p.last = e.Seq
	p.log = append(p.log, e)
	p.bytes += len(e.Data)
	switch e.Kind {
	case Exited:
		code := e.ExitCode
		p.exit, p.denied = &code, e.SandboxDenied
	case Closed:
		p.closed = true
	}
	for !p.consumed && (len(p.log) > maxEvents || p.bytes > maxEventBytes) {
		p.pop()
	}
	p.wake()
}

// pop takes the oldest event. The caller holds the lock.
func (p *Process) pop() Event {
	e := p.log[0]
	p.log[0] = Event{}
	p.log = p.log[1:]
	p.bytes -= len(e.Data)
	p.taken = e.Seq
	return e
}

func (p *Process) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// fail ends the process's events with an error.
func (p *Process) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed && p.err == nil {
		p.err = err
		p.wake()
	}
}

// Events yields the events in order, the last being Closed. An error ends
// them: the context's, the connection's, or that output was lost because
// nobody consumed it in time.
func (p *Process) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		defer p.release()
		missed, err := p.catchUp(ctx)
		for _, e := range missed {
			if err == nil && !yield(e, nil) {
				return
			}
		}
		for err == nil {
			var e Event
			if e, err = p.next(ctx); err == nil {
				if !yield(e, nil) || e.Kind == Closed {
					return
				}
			}
		}
		yield(Event{}, err)
	}
}

// catchUp begins to consume and asks the server for what was dropped before.
func (p *Process) catchUp(ctx context.Context) ([]Event, error) {
	p.mu.Lock()
	p.consumed = true
	from, through := uint64(0), p.taken
	p.mu.Unlock()
	var missed []Event
	for from < through {
		r, err := p.Read(ctx, execproto.ReadParams{AfterSeq: &from})
		if err != nil {
			return nil, err
		}
		for _, chunk := range r.Chunks {
			if chunk.Seq != from+1 {
				break
			}
			from = chunk.Seq
			if from <= through {
				missed = append(missed, Event{Seq: chunk.Seq, Kind: Output, Stream: chunk.Stream, Data: chunk.Chunk})
			}
		}
		if from < through && (len(r.Chunks) == 0 || r.Chunks[len(r.Chunks)-1].Seq != from) {
			return nil, fmt.Errorf("output of process %s was lost after event %d: nobody consumed it in time", p.id, from)
		}
	}
	return missed, nil
}

// next waits for the next event and takes it.
func (p *Process) next(ctx context.Context) (Event, error) {
	for {
		p.mu.Lock()
		if len(p.log) > 0 {
			defer p.mu.Unlock()
			e := p.pop()
			p.wake()
			return e, nil
		}
		err, closed, changed := p.err, p.closed, p.changed
		p.mu.Unlock()
		switch {
		case err != nil:
			return Event{}, err
		case closed:
			return Event{}, io.EOF
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// release ends the consuming: from now on old events are dropped again.
func (p *Process) release() {
	p.mu.Lock()
	p.consumed = false
	p.wake()
	p.mu.Unlock()
}

// Stream writes the process's output to stdout (a terminal's too) and stderr
// until it has closed, and returns its exit code.
func (p *Process) Stream(ctx context.Context, stdout, stderr io.Writer) (int, error) {
	code := -1
	for e, err := range p.Events(ctx) {
		if err != nil {
			return code, err
		}
		switch e.Kind {
		case Exited:
			code = e.ExitCode
		case Output:
			to := stdout
			if e.Stream == execproto.Stderr {
				to = stderr
			}
			if _, err := to.Write(e.Data); err != nil {
				return code, fmt.Errorf("write output: %w", err)
			}
		}
	}
	return code, nil
}

// Wait waits until the process has closed and returns its exit code.
func (p *Process) Wait(ctx context.Context) (int, error) {
	for {
		p.mu.Lock()
		closed, exit, err, changed := p.closed, p.exit, p.err, p.changed
		p.mu.Unlock()
		switch {
		case closed && exit != nil:
			return *exit, nil
		case err != nil:
			return -1, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return -1, ctx.Err()
		}
	}
}

// Read reads retained output; see process/read.
func (p *Process) Read(ctx context.Context, params execproto.ReadParams) (execproto.ReadResult, error) {
	params.ProcessID = p.id
	var r execproto.ReadResult
	err := p.c.Call(ctx, execproto.MethodProcessRead, params, &r)
	return r, err
}

// Write writes to the process's stdin and waits until that has taken it.
func (p *Process) Write(ctx context.Context, data []byte) (execproto.WriteStatus, error) {
	p.mu.Lock()
	p.writeID++
	id := strconv.FormatUint(p.writeID, 10)
	p.mu.Unlock()
	var r execproto.WriteResult
	err := p.c.Call(ctx, execproto.MethodProcessWrite, execproto.WriteParams{ProcessID: p.id, Chunk: data, WriteID: &id}, &r)
	return r.Status, err
}

// Stdin returns the process's stdin as a writer; its Close ends the input.
func (p *Process) Stdin(ctx context.Context) io.WriteCloser { return &stdinWriter{ctx, p} }

type stdinWriter struct {
	ctx context.Context
	p   *Process
}

func (w *stdinWriter) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n := min(len(b)-done, stdinChunk)
		status, err := w.p.Write(w.ctx, b[done:done+n])
		switch {
		case err != nil:
			return done, err
		case status != execproto.WriteAccepted:
			return done, ErrStdinClosed
		}
		done += n
	}
	return done, nil
}

func (w *stdinWriter) Close() error { return w.p.CloseStdin(w.ctx) }

// ErrNoCloseStdin says that the server cannot end a process's input.
var ErrNoCloseStdin = errors.New("this server cannot close a process's stdin")

// CloseStdin ends the process's input. Servers of codex itself cannot do it;
// then the error is ErrNoCloseStdin.
func (p *Process) CloseStdin(ctx context.Context) error {
	if !p.c.Has(execproto.MethodProcessCloseStdin) {
		return ErrNoCloseStdin
	}
	return p.c.Call(ctx, execproto.MethodProcessCloseStdin, execproto.ProcessParams{ProcessID: p.id}, nil)
}

// Resize sets the size of the process's terminal; servers of codex itself
// leave it as it is.
func (p *Process) Resize(ctx context.Context, rows, cols uint16) error {
	if !p.c.Has(execproto.MethodProcessResize) {
		return nil
	}
	return p.c.Call(ctx, execproto.MethodProcessResize, execproto.ResizeParams{ProcessID: p.id, Rows: rows, Cols: cols}, nil)
}

// Signal signals the process's group. Servers of codex itself know
// SignalInterrupt only.
func (p *Process) Signal(ctx context.Context, s execproto.Signal) error {
	return p.c.Call(ctx, execproto.MethodProcessSignal, execproto.SignalParams{ProcessID: p.id, Signal: s}, nil)
}

// Terminate kills the process with its descendants and reports whether it was
// running.
func (p *Process) Terminate(ctx context.Context) (bool, error) {
	var r execproto.TerminateResult
	err := p.c.Call(ctx, execproto.MethodProcessTerminate, execproto.ProcessParams{ProcessID: p.id}, &r)
	return r.Running, err
}
