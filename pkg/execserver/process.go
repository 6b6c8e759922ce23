package execserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/tracing"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/host/envpolicy"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/host/threads"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/wire/pathuri"
)

// start is a process/start on its way.
type start struct {
	p       *proc
	spec    process.Spec
	sandbox *processSandbox // nil: it has none
	network networkLaunch
	shell   *snapshotRequest // nil: start-up files run as usual
	limits  bool             // the client wants to know how they are held
}

// processStart accepts a start. A keeper ends if it refuses its process: the keeper was started for
// this process alone, and its server waits for the end of the keeper.
func processStart(c *conn, params *execproto.StartParams) (call, error) {
	k := c.srv.keeper
	switch {
	case k != nil:
		if err := k.begin(params); err != nil {
			return call{}, err
		}
	case params.Detach != nil:
		return processDetach(c, params)
	case params.Retain != nil:
		return call{}, invalidParams("retain is for a process with detach")
	}
	start, err := c.newStart(params)
	if err != nil && k != nil {
		k.end()
	}
	return start, err
}

// newStart registers the process on the reader, so that what follows can
// name it, and starts it in the ordinary lane. The start has the first turn of
// the requests about the process.
func (c *conn) newStart(params *execproto.StartParams) (call, error) {
	spec, err := c.startSpec(params)
	if err != nil {
		return call{}, err
	}
	var box *processSandbox
	if params.Sandbox != nil {
		if box, err = c.processSandbox(params, spec.Dir); err != nil {
			return call{}, err
		}
	}
	network, err := c.srv.networkLaunch(params)
	if err != nil {
		return call{}, err
	}
	shell, err := newSnapshotRequest(params)
	if err != nil {
		return call{}, err
	}
	ctx, stop := context.WithCancel(c.session.ctx)
	p := &proc{
		s: c.session, id: params.ProcessID, argv: spec.Argv, tty: spec.TTY,
		startedAt: time.Now(), stop: stop, started: make(chan struct{}),
		seen: observe.Process{
			Session: c.session.seen(), ID: params.ProcessID, TTY: spec.TTY, Log: c.log.With("process", shorten(params.ProcessID)),
		},
	}
	if m := params.Metadata; m != nil {
		p.seen.Thread, p.seen.ToolCall = shorten(m.ThreadID), shorten(m.ToolCallID)
		p.seen.Log = p.seen.Log.With("thread", p.seen.Thread, "call", p.seen.ToolCall)
	}
	if err := c.session.add(p); err != nil {
		stop()
		return call{}, err
	}
	st := &start{p: p, spec: spec, sandbox: box, network: network, shell: shell, limits: params.Limits != nil}
	return call{
		turn: c.session.order.enter(p.id),
		run:  func(request context.Context) (result, error) { return st.run(ctx, request) },
		drop: func() { _ = st.failed(errEnded) },
	}, nil
}

// run starts the process. ctx ends when the start is cancelled; request has the span of
// the request.
func (st *start) run(ctx, request context.Context) (result, error) {
	p := st.p
	events := p.s.srv.events
	defer p.stop()
	p.seen.Within = tracing.From(request)
	events.ProcessStartBegan.Tell(&p.seen)
	if p.s.srv.opts.TraceCommands {
		st.spec.Env = p.seen.Environ(request, st.spec.Env)
	}
	p.seen.Argv, p.seen.Dir, p.seen.Sandbox = st.spec.Argv, st.spec.Dir, sandboxNone
	began := time.Now()
	intent, err := st.prepareSandbox(ctx)
	if err == nil {
		err = events.ProcessStarting.Ask(&p.seen)
	}
	if err == nil {
		err = st.openNetwork(intent)
	}
	if err == nil {
		st.restoreShell(ctx, intent)
		err = p.keepLog()
	}
	var running *process.Process
	if err == nil {
		began = time.Now()
		running, err = st.spawn(ctx, intent)
	}
	p.seen.Took = time.Since(began)
	if err != nil {
		return nil, st.failed(err)
	}
	p.seen.PID = running.Pid()
	return followed{execproto.StartResult{ProcessID: p.id, SandboxType: p.seen.Sandbox, Limits: st.held(running.Held())}, func() {
		if p.setStarted(running) {
			running.Terminate()
		}
		events.ProcessStarted.Tell(&p.seen) // while the answer is sent
		running.OpenGate()
	}}, nil
}

// prepareSandbox returns how the process must be confined; nil: not at all.
func (st *start) prepareSandbox(ctx context.Context) (intent *runner.Intent, err error) {
	if st.sandbox == nil {
		return nil, nil
	}
	seen := &st.p.seen
	err = st.step(observe.StepPrepareSandbox, func() error {
		intent, err = withThreadOf(ctx, threads.Starts, st.sandbox.intent)
		return err
	})
	if intent != nil {
		seen.Sandbox, seen.Policy = sandboxLinux, intent.Profile
	}
	return intent, err
}

// spawn starts the command.
func (st *start) spawn(ctx context.Context, intent *runner.Intent) (running *process.Process, err error) {
	p := st.p
	err = st.step(observe.StepSpawn, func() error {
		if intent == nil {
			running, err = p.s.group.Start(ctx, st.spec, p.sink())
			return err
		}
		p.confined, p.seen.Backend = true, p.s.srv.backend()
		p.s.srv.confined.record()
		running, err = p.startConfined(ctx, intent, st.spec)
		return err
	})
	return running, err
}

// step runs a part of the start that has a span of its own.
func (st *start) step(name string, run func() error) error {
	events, step := st.p.s.srv.events, &observe.Step{Name: name, Within: st.p.seen.Within}
	events.StepBegan.Tell(step)
	step.Err = run()
	events.StepDone.Tell(step)
	return step.Err
}

// failed forgets the process, which did not start because of err, and returns the error of the
// request.
func (st *start) failed(err error) error {
	p := st.p
	p.stop()
	p.closeNetwork()
	p.s.remove(p)
	if k := p.s.srv.keeper; k != nil {
		defer k.end()
	}
	answer := startError(err)
	if p.setStarted(nil) {
		err = internal("process " + shorten(p.id) + " was terminated while it was starting")
		answer = err
	}
	p.s.srv.events.ProcessStartFailed.Tell(observe.StartFailure{Process: &p.seen, Err: err})
	return answer
}

// startSpec turns the params of process/start into what to run.
func (c *conn) startSpec(p *execproto.StartParams) (process.Spec, error) {
	srv := c.srv
	if len(p.ProcessID) > maxProcessID {
		return process.Spec{}, invalidParams(fmt.Sprintf("processId must not exceed %d bytes", maxProcessID))
	}
	cwd, err := pathuri.Parse(p.Cwd, srv.home)
	var elsewhere *pathuri.HostError
	switch {
	case errors.As(err, &elsewhere):
		return process.Spec{}, invalidParams(fmt.Sprintf("cwd URI `%s` is not valid on this exec-server host: %v", shorten(p.Cwd), err))
	case err != nil:
		return process.Spec{}, err
	}
	if err := c.checkStart(p, cwd); err != nil {
		return process.Spec{}, err
	}
	var policy *envpolicy.Policy
	if e := p.EnvPolicy; e != nil {
		policy = &envpolicy.Policy{
			Inherit: e.Inherit, IgnoreDefaultExcludes: e.IgnoreDefaultExcludes,
			Exclude: e.Exclude, Set: e.Set, IncludeOnly: e.IncludeOnly,
		}
	}
	spec := process.Spec{
		Argv: p.Argv, Arg0: p.Arg0, Dir: cwd,
		Env: envpolicy.Environ(os.Environ(), policy, p.Env),
		TTY: p.TTY, PipeStdin: p.PipeStdin, Window: p.OutputWindow, Limits: srv.limits(p.Limits, &c.grant.Ceiling.Limits),
	}
	if p.Size != nil {
		spec.Rows, spec.Cols = p.Size.Rows, p.Size.Cols
	}
	return spec, nil
}

func unknownProcess(id string) error { return invalid("unknown process id " + shorten(id)) }

// processRead answers process/read, with retained output. It waits up to waitMs
// if there is none.
func processRead(c *conn, params *execproto.ReadParams) (call, error) {
	if params.Consume {
		if err := c.needs(wsauth.RoleRun, execproto.MethodProcessRead+" with consume"); err != nil {
			return call{}, err
		}
	}
	if c.isDetached(params.ProcessID) {
		return forwardRead(c, params)
	}
	p := c.session.find(params.ProcessID)
	switch {
	case p == nil && c.srv.keeper != nil:
		// It is starting or ending: the server asks again, or reads from disk.
		return call{}, execproto.ProcessStarting(shorten(params.ProcessID))
	case p == nil:
		return call{}, unknownProcess(params.ProcessID)
	}
	return call{run: func(ctx context.Context) (result, error) { return p.read(ctx, params) }}, nil
}

// read returns the retained output that params ask for. Unlike the requests that
// change a process it has no turn: it may wait for hours.
func (p *proc) read(ctx context.Context, params *execproto.ReadParams) (result, error) {
	select {
	case <-p.started:
	case <-ctx.Done():
		return nil, execproto.ProcessStarting(shorten(p.id))
	}
	if p.running == nil {
		return nil, unknownProcess(p.id)
	}
	if p.kept != nil {
		if params.Consume {
			p.kept.Consume(afterSeq(params)) // the process may wait for that
		}
		p.kept.Wait(ctx, afterSeq(params), waitOf(params))
		r, err := readLog(p.kept, params, false)
		return r, err
	}
	r, err := p.running.Read(ctx, afterSeq(params), params.MaxBytes, waitOf(params))
	if err != nil {
		return nil, err
	}
	return followed{readResult(&r, params.Details), r.Release}, nil
}

func readResult(r *process.ReadResult, details bool) execproto.ReadResult {
	chunks := make([]execproto.OutputChunk, len(r.Chunks))
	for i, c := range r.Chunks {
		chunks[i] = execproto.OutputChunk{Seq: c.Seq, Stream: execproto.Stream(c.Stream), Chunk: c.Data}
	}
	result := execproto.ReadResult{
		Chunks: chunks, NextSeq: r.NextSeq, Exited: r.Exited, ExitCode: r.ExitCode,
		Closed: r.Closed, Failure: r.Failure, SandboxDenied: r.SandboxDenied,
	}
	if e := r.Exit; e != nil && details {
		result.Cause, result.Resources = causes[e.Cause], resources(&e.Usage)
	}
	return result
}

// processWrite queues the write, and answers when the process's stdin has taken
// it. A write outlives its connection: it was queued, and a client that resumes
// the session sends it again under the same id.
func processWrite(p *proc, params *execproto.WriteParams) (result, error) {
	if p == nil {
		return writeResult(params, process.WriteResult{Status: process.WriteUnknown})
	}
	p.countInput(len(params.Chunk))
	return pending(func(answer func(result, error)) {
		p.running.Write(params.Chunk, params.WriteID, func(w process.WriteResult) { answer(writeResult(params, w)) })
	}), nil
}

// writeResult returns the answer to a write. Without a writeId a closed stdin
// and an unknown process are errors; with one they are statuses
// (docs/spec/wire.md §4.5).
func writeResult(params *execproto.WriteParams, w process.WriteResult) (result, error) {
	switch {
	case w.Err != nil:
		return nil, w.Err
	case params.WriteID == nil && w.Status == process.WriteUnknown:
		return nil, unknownProcess(params.ProcessID)
	case params.WriteID == nil && w.Status == process.WriteStdinClosed:
		const why = "it was started without pipeStdin, was closed, or the process has ended"
		return nil, invalid(fmt.Sprintf("stdin of process %s is closed: %s", shorten(params.ProcessID), why))
	default:
		return execproto.WriteResult{Status: execproto.WriteStatus(w.Status)}, nil
	}
}

// processCloseStdin closes stdin after the earlier writes.
func processCloseStdin(p *proc, params *execproto.ProcessParams) (result, error) {
	if p == nil {
		return nil, unknownProcess(params.ProcessID)
	}
	return pending(func(answer func(result, error)) {
		p.running.CloseStdin(func(err error) { answer(done{}, err) })
	}), nil
}

// processAck makes room in a process's window. An unknown process is no error:
// it may have been forgotten meanwhile.
func processAck(c *conn, params *execproto.ProcessAck) {
	if p := c.session.find(params.ProcessID); p != nil {
		p.ack(params.Seq)
	}
}

// processResize sets a terminal's size.
func processResize(p *proc, params *execproto.ResizeParams) (result, error) {
	switch {
	case p == nil:
		return nil, unknownProcess(params.ProcessID)
	case !p.tty:
		return nil, invalid(fmt.Sprintf("process %s has no terminal; start it with tty", shorten(p.id)))
	default:
		return done{}, p.running.Resize(params.Rows, params.Cols)
	}
}

// signals maps the protocol's names to signals (docs/spec/wire.md §4.6); the
// decoder accepts the same names.
var signals = map[execproto.Signal]syscall.Signal{
	execproto.SignalInterrupt: syscall.SIGINT,
	execproto.SignalTerminate: syscall.SIGTERM,
	execproto.SignalKill:      syscall.SIGKILL,
	execproto.SignalHangup:    syscall.SIGHUP,
	execproto.SignalQuit:      syscall.SIGQUIT,
	execproto.SignalUSR1:      syscall.SIGUSR1,
	execproto.SignalUSR2:      syscall.SIGUSR2,
}

// processSignal signals a process. An unknown or ended process is no error.
func processSignal(p *proc, params *execproto.SignalParams) (result, error) {
	sig, ok := signals[params.Signal]
	switch {
	case !ok:
		return nil, invalidParams(fmt.Sprintf("unknown variant `%s`", shorten(string(params.Signal))))
	case p == nil:
		return done{}, nil
	default:
		if p.kept != nil {
			p.kept.Overshoot()
		}
		return done{}, p.running.Signal(sig)
	}
}

// processTerminate kills a process with its descendants. A start is cancelled at
// once: the request must not wait for the turn that the start has.
func processTerminate(c *conn, params *execproto.ProcessParams) (call, error) {
	if c.isDetached(params.ProcessID) {
		return terminateDetached(c, params)
	}
	if p := c.session.find(params.ProcessID); p != nil && p.cancelStart() {
		return call{run: func(context.Context) (result, error) { return execproto.TerminateResult{Running: true}, nil }}, nil
	}
	return orderedCall(c, params.ProcessID, func(p *proc) (result, error) {
		if p == nil {
			return execproto.TerminateResult{Running: false}, nil
		}
		// Descendants that outlive an exited process are no longer asked about.
		p.stopAsking()
		if p.kept != nil {
			p.kept.Release()
		}
		return execproto.TerminateResult{Running: p.running.Terminate()}, nil
	}), nil
}
