package execclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"strings"
	"sync"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/internal/wait"
	"codex.internal/pkg/wire/jsonrpc"
)

// ExitState is how a process ended.
type ExitState struct {
	// Code is its exit status, 128+n after signal n, or -1 when unknown.
	Code int
	// SandboxDenied says that its sandbox probably denied it something.
	SandboxDenied bool
	// Cause is why it ended, and Resources what it has used; "" and nil if the server
	// does not tell (extension process/limits).
	Cause     execproto.Cause
	Resources *execproto.ProcessResources
}

// Process is a process on the server. Its methods may be called from any
// goroutine, and it survives lost connections where its client does.
//
// The server numbers events; they are put in order here. The newest are kept,
// at most maxEvents and maxEventBytes of them, and older ones are asked for
// again. Nothing here waits for a consumer but the process itself, where the
// server has flow control; see waitForRoom for the others.
type Process struct {
	c         *Client
	id        string
	sandboxed bool
	terminal  bool
	windowed  bool // the server holds it back

	mu           sync.Mutex
	sandbox      string // as the server calls it
	limits       []execproto.HeldLimit
	started      bool             // the server has said so
	pending      map[uint64]Event // came out of order
	pendingBytes int              // of their output
	last         uint64           // newest event that is in order
	total        uint64           // bytes of output through it
	log          []Event          // the newest events in order
	bytes        int              // of output in the log
	exited       *Event
	denied       bool
	closed       bool
	err          error
	changed      chan struct{} // closed and replaced on every change
	room         chan struct{} // closed when a consumer has taken something
	writeID      uint64
	followers    map[*follower]bool
	unclaimed    bool   // it has just started: a caller may still ask for its output
	unwanted     bool   // the caller waits only for the end
	released     bool   // no caller uses the process any more
	readThrough  uint64 // what process/read was asked to leave out
	acked        uint64 // what the server was told, and the bytes through it
	ackedEnd     uint64
}

func newProcess(c *Client, params execproto.StartParams) *Process {
	return &Process{
		c: c, id: params.ProcessID, sandboxed: len(params.Sandbox) > 0, terminal: params.TTY, windowed: c.Has(execproto.NotifyProcessAck),
		pending: make(map[uint64]Event), changed: make(chan struct{}), followers: make(map[*follower]bool), unclaimed: true,
	}
}

// Start starts a process. The id in the params must be new to the session.
//
// When the connection is lost before the server has answered, the start is
// sent again with the same id, so that the process is started once. When the
// context ends before, the process is terminated in the background; so it is
// with an *EventsLostError, when too much of it was missed meanwhile, and with
// ErrStarting, when the server has lost track of the start.
//
// If the server refuses the start, the error is a *ServerError. It matches
// exec.ErrNotFound and fs.ErrNotExist if there is no such program, fs.ErrNotExist if
// there is no such directory, and fs.ErrPermission if either may not be used.
func (c *Client) Start(ctx context.Context, params execproto.StartParams) (*Process, error) {
	p, err := c.startProcess(ctx, params)
	return p, startError(err)
}

// startError lets the error of a start that a server refuses match those of os/exec
// and io/fs.
func startError(err error) error {
	refused, ok := errors.AsType[*ServerError](err)
	if !ok {
		return err
	}
	m := osError.FindStringSubmatch(refused.Message)
	switch {
	case m == nil:
		return err
	case m[1] == "2" && strings.Contains(refused.Message, "(os error 2): working directory "):
		return &fileError{err, []error{fs.ErrNotExist}}
	case m[1] == "2":
		return &fileError{err, []error{exec.ErrNotFound, fs.ErrNotExist}}
	case m[1] == "1", m[1] == "13":
		return &fileError{err, []error{fs.ErrPermission}}
	default:
		return err
	}
}

func (c *Client) startProcess(ctx context.Context, params execproto.StartParams) (*Process, error) {
	if l := params.Limits; l != nil && l.Require && !c.Has(execproto.ExtensionLimits) {
		return nil, ErrNoLimits
	}
	p := newProcess(c, params)
	if params.Env == nil {
		params.Env = map[string]string{}
	}
	if p.windowed && params.OutputWindow == 0 {
		params.OutputWindow = outputWindow
	}
	raw, err := encode(execproto.MethodProcessStart, &params)
	if err != nil {
		return nil, err
	}
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
	if err := c.start(ctx, p, raw); err != nil {
		if ctx.Err() != nil || errors.Is(err, ErrStarting) || errors.Is(err, ErrEventsLost) {
			c.abandon(p)
		} else {
			c.forget(p)
		}
		return nil, err
	}
	return p, nil
}

// start sends the request until there is an answer.
func (c *Client) start(ctx context.Context, p *Process, params []byte) error {
	for again := false; ; again = true {
		l, err := c.live(ctx)
		if err != nil {
			return err
		}
		m, err := l.call(ctx, execproto.MethodProcessStart, params)
		if err == nil && m.Kind == jsonrpc.ErrorResponse {
			err = serverError(execproto.MethodProcessStart, m)
		}
		if again && execproto.IsProcessExists(err) {
			// The first one has reached the server.
			if err = c.adopt(ctx, l, p); err == nil {
				return nil
			}
		}
		switch {
		case err == nil:
			return p.begin(m)
		case isDown(err):
			if err := c.waitDown(ctx, l); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// begin notes that the server has started the process.
func (p *Process) begin(m jsonrpc.Message) error {
	var r execproto.StartResult
	err := decodeAnswer(execproto.MethodProcessStart, m, &r)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sandbox, p.limits, p.started = r.SandboxType, r.Limits, true
	return err
}

// adopt takes over a process whose first events were sent to nobody. Servers
// of codex itself cannot be asked while it is starting, and leave it at that for
// good when the connection was lost at the wrong moment.
func (c *Client) adopt(ctx context.Context, l *connection, p *Process) error {
	p.mu.Lock()
	p.started = true
	p.mu.Unlock()
	err := p.recover(ctx, l)
	for began := time.Now(); errors.Is(err, ErrStarting) && time.Since(began) < startingTime; {
		_ = wait.For(ctx, retryPause) // the next attempt fails if ctx has ended
		err = p.recover(ctx, l)
	}
	return err
}

// abandon terminates a process whose start nobody waits for any more, and
// which the server may have started.
func (c *Client) abandon(p *Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return
	}
	c.wg.Go(func() {
		if raw, err := encode(execproto.MethodProcessTerminate, &execproto.ProcessParams{ProcessID: p.id}); err == nil {
			_, _ = c.call(c.ctx, execproto.MethodProcessTerminate, raw, true)
		}
		p.fail(ErrClosed)
		c.forget(p)
	})
}

// SandboxType is what the server says confines the process; "none" if nothing
// does, empty if the server does not tell.
func (p *Process) SandboxType() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sandbox
}

// Limits returns how the server holds each limit of the process, if it was started with
// StartParams.Limits and the server knows those.
func (p *Process) Limits() []execproto.HeldLimit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limits
}

// ID returns the process's id.
func (p *Process) ID() string { return p.id }

func (p *Process) isStarted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started
}

// through returns the last event that has come in order.
func (p *Process) through() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

func (p *Process) exitEvent() *Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exited
}

// fail ends the process's events with an error.
func (p *Process) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed && p.err == nil {
		p.err = err
		p.pending, p.pendingBytes = nil, 0
		p.moved()
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// Release detaches the client from the process, which goes on running: the client
// delivers no more events of it and does not limit its output.
func (p *Process) Release() {
	p.mu.Lock()
	p.released = true
	p.mu.Unlock()
	p.maybeAck()
	p.fail(ErrClosed)
	p.c.forget(p)
}

// Wait waits until the process has exited. Output may still come, from it or
// from its descendants. To get all of it, call Events, Stdout or Stderr before Wait:
// while a process that is waited for has no follower, output beyond the log's limit is
// dropped.
func (p *Process) Wait(ctx context.Context) (ExitState, error) {
	return p.wait(ctx, func() bool { return p.exited != nil })
}

// WaitClosed waits until the process has exited and all its output has come.
func (p *Process) WaitClosed(ctx context.Context) (ExitState, error) {
	return p.wait(ctx, func() bool { return p.closed })
}

func (p *Process) wait(ctx context.Context, over func() bool) (ExitState, error) {
	for {
		p.mu.Lock()
		p.unwanted = true
		p.claim()
		done, err, changed := over(), p.err, p.changed
		state := p.exitState()
		p.mu.Unlock()
		switch {
		case done:
			return p.askDenied(ctx, state), nil
		case err != nil:
			return ExitState{Code: -1}, err
		}
		p.maybeAck()
		select {
		case <-changed:
		case <-ctx.Done():
			return ExitState{Code: -1}, ctx.Err()
		}
	}
}

func (p *Process) exitState() ExitState {
	if p.exited == nil {
		return ExitState{Code: -1}
	}
	return ExitState{Code: p.exited.ExitCode, SandboxDenied: p.denied, Cause: p.exited.Cause, Resources: p.exited.Resources}
}

// askDenied asks servers that do not tell with the exit whether the sandbox
// denied something.
func (p *Process) askDenied(ctx context.Context, state ExitState) ExitState {
	p.mu.Lock()
	ask, last := p.sandboxed && p.sandbox == "" && !p.denied && state.Code != 0, p.last
	p.mu.Unlock()
	if !ask {
		return state
	}
	r, err := p.read(ctx, execproto.ReadParams{AfterSeq: &last, WaitMS: new(uint64)})
	if err == nil && r.SandboxDenied {
		p.mu.Lock()
		p.denied, state.SandboxDenied = true, true
		p.mu.Unlock()
	}
	return state
}

// Stream writes the process's output to stdout (a terminal's too) and stderr
// until it has closed, and returns how it ended. The process is held back
// while a writer blocks.
func (p *Process) Stream(ctx context.Context, stdout, stderr io.Writer) (ExitState, error) {
	for e, err := range p.Events(ctx) {
		if err != nil {
			return ExitState{Code: -1}, err
		}
		to := stdout
		switch {
		case e.Kind != Output:
			continue
		case e.Stream == execproto.Stderr:
			to = stderr
		}
		if _, err := to.Write(e.Data); err != nil {
			return ExitState{Code: -1}, fmt.Errorf("write output: %w", err)
		}
	}
	return p.WaitClosed(ctx)
}

// Resize sets the size of the process's terminal; servers of codex itself
// leave it as it is.
func (p *Process) Resize(ctx context.Context, rows, cols uint16) error {
	return p.extension(ctx, execproto.MethodProcessResize, &execproto.ResizeParams{ProcessID: p.id, Rows: rows, Cols: cols}, nil)
}

// extension calls a method that not all servers have; without is the error
// where it is missing.
func (p *Process) extension(ctx context.Context, method string, params execproto.Object, without error) error {
	if !p.c.Has(method) {
		return without
	}
	return p.c.Call(ctx, method, params, nil)
}

// Signal signals the process's group. Servers of codex itself know
// SignalInterrupt only. It is not repeated when the connection is lost before
// the answer.
func (p *Process) Signal(ctx context.Context, s execproto.Signal) error {
	return p.c.Call(ctx, execproto.MethodProcessSignal, &execproto.SignalParams{ProcessID: p.id, Signal: s}, nil)
}

// Terminate kills the process with its descendants and reports whether it was
// running. It is not repeated when the connection is lost before the answer.
func (p *Process) Terminate(ctx context.Context) (bool, error) {
	var r execproto.TerminateResult
	err := p.c.Call(ctx, execproto.MethodProcessTerminate, &execproto.ProcessParams{ProcessID: p.id}, &r)
	return r.Running, err
}
