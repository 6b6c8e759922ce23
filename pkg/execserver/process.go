package execserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"codex.internal/pkg/execproto"
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
	log     *slog.Logger

	recorded bool // in the audit trail
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
	}
	if err := c.session.add(p); err != nil {
		stop()
		return call{}, err
	}
	log := c.log.With("process", shorten(p.id))
	if m := params.Metadata; m != nil {
		p.thread, p.call = shorten(m.ThreadID), shorten(m.ToolCallID)
		log = log.With("thread", p.thread, "call", p.call)
	}
	p.log = log
	st := &start{p: p, spec: spec, sandbox: box, network: network, shell: shell, limits: params.Limits != nil, log: log}
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
	defer p.stop()
	st.startSpan(request)
	kind := sandboxNone
	var intent *runner.Intent
	var running *process.Process
	var err error
	began := time.Now()
	if st.sandbox != nil {
		within(request, spanPrepareSandbox, func() error {
			intent, err = withThreadOf(ctx, threads.Starts, st.sandbox.intent)
			return err
		})
	}
	if err == nil {
		err = st.recordStart(intent)
	}
	if err == nil {
		err = st.openNetwork(intent)
	}
	if err == nil {
		st.restoreShell(ctx, intent)
		err = p.keepLog()
	}
	var spawn *tracing.Span
	if err == nil {
		spawn = tracing.From(request).Child(spanSpawn, tracing.Internal)
	}
	switch {
	case err != nil:
	case intent != nil:
		kind = sandboxLinux
		p.confined = true
		p.s.srv.confined.record()
		began = time.Now()
		running, err = p.startConfined(ctx, intent, st.spec)
	default:
		running, err = p.s.group.Start(ctx, st.spec, p.sink())
	}
	spawn.End(err != nil)
	p.span.Set("sandbox.type", kind)
	if err != nil {
		st.observeStart(kind, 0, time.Since(began), err)
		return nil, st.failed(startError(err))
	}
	took := time.Since(began)
	return followed{execproto.StartResult{ProcessID: p.id, SandboxType: kind, Limits: st.held(running.Held())}, func() {
		if p.setStarted(running) {
			running.Terminate()
		}
		st.observeStart(kind, running.Pid(), took, nil) // while the answer is sent
		running.OpenGate()
	}}, nil
}

// failed forgets the process, which did not start, and returns the error of the
// request.
func (st *start) failed(err error) error {
	st.p.stop()
	st.p.span.End(true)
	st.p.closeNetwork()
	st.p.s.remove(st.p)
	if k := st.p.s.srv.keeper; k != nil {
		defer k.end()
	}
	if st.p.setStarted(nil) {
		err = internal("process " + shorten(st.p.id) + " was terminated while it was starting")
	}
	st.log.Info("process did not start", "error", err)
	return err
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
	p.observeInput(len(params.Chunk))
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
