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
	"unicode/utf8"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/internal/wait"
	"codex.internal/pkg/wire/jsonrpc"
)

// ExitState describes the end of a process.
type ExitState struct {
	// Code is the exit code, 128+n after signal n, or -1 if it is unknown.
	Code int
	// SandboxDenied means that its sandbox probably denied it something.
	SandboxDenied bool
	// Cause is the reason of the end, and Resources what the process used; "" and nil if the
	// server does not report them (extension process/limits).
	Cause     execproto.Cause
	Resources *execproto.ProcessResources
}

// Process represents a process on the server. Its methods may be called from any goroutine,
// and it survives lost connections if its client does.
//
// The server numbers events, and Process sorts them. It keeps the newest, at most maxEvents
// and maxEventBytes of them; older ones are requested again. With flow control only the
// process itself waits for a slow consumer; see waitForRoom for servers without it.
type Process struct {
	c         *Client
	id        string
	sandboxed bool
	terminal  bool
	windowed  bool // the server has flow control

	mu           sync.Mutex
	sandbox      string // the process's id at the server
	limits       []execproto.HeldLimit
	started      bool             // the server has confirmed the start
	pending      map[uint64]Event // arrived before earlier ones
	pendingBytes int              // bytes of output in pending
	last         uint64           // the newest event in order
	total        uint64           // bytes of output through event last
	log          []Event          // the newest events in order
	bytes        int              // bytes of output in the log
	exited       *Event
	denied       bool
	closed       bool
	err          error
	changed      chan struct{} // closed and replaced on every change
	room         chan struct{} // closed when a consumer has taken events
	writeID      uint64
	followers    map[*follower]bool
	unclaimed    bool   // no caller has asked for events or the end yet
	unwanted     bool   // a caller waits for the end only
	released     bool   // no caller uses the process any more
	readThrough  uint64 // the AfterSeq of process/read
	acked        uint64 // the last acknowledged event, and the bytes up to it
	ackedEnd     uint64
}

func newProcess(c *Client, params execproto.StartParams) *Process {
	return &Process{
		c: c, id: params.ProcessID, sandboxed: len(params.Sandbox) > 0, terminal: params.TTY, windowed: c.Has(execproto.NotifyProcessAck),
		pending: make(map[uint64]Event), changed: make(chan struct{}), followers: make(map[*follower]bool), unclaimed: true,
	}
}

// Start starts a process. The id in the params must be new in the session.
//
// If the connection is lost before the answer, the start is sent again with the same id, so
// that the process is started once. The process is terminated in the background if the context
// ends first, with an *EventsLostError if too many events were missed meanwhile, and with
// ErrStarting if the server has lost track of the start.
//
// If the server refuses the start, the error is a *ServerError. It matches exec.ErrNotFound
// and fs.ErrNotExist if there is no such program, fs.ErrNotExist if there is no such
// directory, and fs.ErrPermission if either may not be used.
//
// An argument or a variable that is not UTF-8 is refused.
func (c *Client) Start(ctx context.Context, params execproto.StartParams) (*Process, error) {
	if err := checkText(&params); err != nil {
		return nil, err
	}
	p, err := c.startProcess(ctx, params)
	return p, startError(err)
}

// checkText returns an error that names a string of a start that is not UTF-8. JSON would carry another string.
func checkText(p *execproto.StartParams) error {
	for i, word := range p.Argv {
		if !utf8.ValidString(word) {
			return notText(fmt.Sprintf("argument %d of the command", i), word)
		}
	}
	if p.Arg0 != nil && !utf8.ValidString(*p.Arg0) {
		return notText("arg0 of the command", *p.Arg0)
	}
	for name, value := range p.Env {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return notText("variable", name+"="+value)
		}
	}
	return nil
}

func notText(what, text string) error {
	return fmt.Errorf("%s: %q is not UTF-8, and the protocol carries nothing else: write it into a script on the server, and run that", what, text)
}

// startError makes the error of a refused start match the errors of os/exec and io/fs.
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

// start sends the request until it is answered.
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
			// The first request had reached the server.
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

// begin records that the server has started the process.
func (p *Process) begin(m jsonrpc.Message) error {
	var r execproto.StartResult
	err := decodeAnswer(execproto.MethodProcessStart, m, &r)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sandbox, p.limits, p.started = r.SandboxType, r.Limits, true
	return err
}

// adopt takes over a process whose first events were sent on a lost connection. Codex CLI's
// servers answer ErrStarting while it starts, and forever if the connection was lost at the
// wrong moment.
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

// abandon terminates a process whose caller has given up, if the server has started it.
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

// SandboxType returns the confinement that the server reports: "none" without a sandbox,
// empty if the server does not report it.
func (p *Process) SandboxType() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sandbox
}

// Limits returns how the server enforces each limit of StartParams.Limits, if it supports
// them.
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

// through returns the number of the last event in order.
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

// Release detaches the client from the process, which continues. The client does not deliver
// its events any more and does not limit its output.
func (p *Process) Release() {
	p.mu.Lock()
	p.released = true
	p.mu.Unlock()
	p.maybeAck()
	p.fail(ErrClosed)
	p.c.forget(p)
}

// Wait waits until the process has exited. More output may follow, from descendants for
// example. To get all output, call Events, Stdout or Stderr before Wait: without a follower,
// output beyond the log's limit is dropped while Wait waits.
func (p *Process) Wait(ctx context.Context) (ExitState, error) {
	return p.wait(ctx, func() bool { return p.exited != nil })
}

// WaitClosed waits until the process has exited and its output is complete.
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

// askDenied asks servers that do not report a denial with the exit.
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

// Stream writes the process's output to stdout (a terminal's too) and stderr until it has
// closed, and returns how it ended. A writer that blocks holds the process back.
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

// Resize sets the size of the process's terminal. Codex CLI's servers ignore it.
func (p *Process) Resize(ctx context.Context, rows, cols uint16) error {
	return p.extension(ctx, execproto.MethodProcessResize, &execproto.ResizeParams{ProcessID: p.id, Rows: rows, Cols: cols}, nil)
}

// extension calls a method that some servers do not support. It returns false if this
// server does not.
func (p *Process) extension(ctx context.Context, method string, params execproto.Object, without error) error {
	if !p.c.Has(method) {
		return without
	}
	return p.c.Call(ctx, method, params, nil)
}

// Signal signals the process's group. Codex CLI's servers support SignalInterrupt only. It is
// not repeated if the connection is lost before the answer.
func (p *Process) Signal(ctx context.Context, s execproto.Signal) error {
	return p.c.Call(ctx, execproto.MethodProcessSignal, &execproto.SignalParams{ProcessID: p.id, Signal: s}, nil)
}

// Terminate kills the process with its descendants and reports whether it was running. It is
// not repeated if the connection is lost before the answer.
func (p *Process) Terminate(ctx context.Context) (bool, error) {
	var r execproto.TerminateResult
	err := p.c.Call(ctx, execproto.MethodProcessTerminate, &execproto.ProcessParams{ProcessID: p.id}, &r)
	return r.Running, err
}
