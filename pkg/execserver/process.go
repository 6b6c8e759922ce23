package execserver

import (
	"context"
	"fmt"
	"syscall"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/detach"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/host/process"
)

// processRead answers process/read with retained output. If there is none, it waits up to
// waitMs.
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
		// The keeper is starting or ending: the server asks again, or reads from disk.
		return call{}, execproto.ProcessStarting(shorten(params.ProcessID))
	case p == nil:
		return call{}, execproto.UnknownProcess(params.ProcessID)
	}
	return call{run: func(ctx context.Context) (reply.Result, error) { return p.read(ctx, params) }}, nil
}

// read returns the retained output that params ask for. Unlike the requests that change a
// process, it is not part of a sequence, because it may wait for hours.
func (p *proc) read(ctx context.Context, params *execproto.ReadParams) (reply.Result, error) {
	select {
	case <-p.started:
	case <-ctx.Done():
		return nil, execproto.ProcessStarting(shorten(p.id))
	}
	if p.running == nil {
		return nil, execproto.UnknownProcess(p.id)
	}
	if p.output != nil {
		if params.Consume {
			p.output.Consume(params.After()) // a process may wait for this space
		}
		p.output.Wait(ctx, params.After(), params.Wait())
		r, err := detach.ReadLog(p.output, params, false)
		return r, err
	}
	r, err := p.running.Read(ctx, params.After(), params.MaxBytes, params.Wait())
	if err != nil {
		return nil, err
	}
	return reply.Followed{Result: readResult(&r, params.Details), Then: r.Release}, nil
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

// processWrite queues the write, and answers when the process's stdin has accepted it. A queued
// write continues after its connection has ended. A client that resumes the session sends the
// write again under the same id.
func processWrite(p *proc, params *execproto.WriteParams) (reply.Result, error) {
	if p == nil {
		return writeResult(params, process.WriteResult{Status: process.WriteUnknown})
	}
	p.countInput(len(params.Chunk))
	return reply.Pending(func(answer func(reply.Result, error)) {
		p.running.Write(params.Chunk, params.WriteID, func(w process.WriteResult) { answer(writeResult(params, w)) })
	}), nil
}

// writeResult returns the answer to a write. Without a writeId a closed stdin
// and an unknown process are errors; with one they are statuses
// (docs/spec/wire.md §4.5).
func writeResult(params *execproto.WriteParams, w process.WriteResult) (reply.Result, error) {
	switch {
	case w.Err != nil:
		return nil, w.Err
	case params.WriteID == nil && w.Status == process.WriteUnknown:
		return nil, execproto.UnknownProcess(params.ProcessID)
	case params.WriteID == nil && w.Status == process.WriteStdinClosed:
		const why = "it was started without pipeStdin, was closed, or the process has ended"
		return nil, execproto.InvalidRequest(fmt.Sprintf("stdin of process %s is closed: %s", shorten(params.ProcessID), why))
	default:
		return execproto.WriteResult{Status: execproto.WriteStatus(w.Status)}, nil
	}
}

// processCloseStdin closes stdin after the earlier writes.
func processCloseStdin(p *proc, params *execproto.ProcessParams) (reply.Result, error) {
	if p == nil {
		return nil, execproto.UnknownProcess(params.ProcessID)
	}
	return reply.Pending(func(answer func(reply.Result, error)) {
		p.running.CloseStdin(func(err error) { answer(reply.Done{}, err) })
	}), nil
}

// processAck frees space in a process's window. An unknown process is not an
// error: it may have been removed meanwhile.
func processAck(c *conn, params *execproto.ProcessAck) {
	if p := c.session.find(params.ProcessID); p != nil {
		p.ack(params.Seq)
	}
}

// processResize sets a terminal's size.
func processResize(p *proc, params *execproto.ResizeParams) (reply.Result, error) {
	switch {
	case p == nil:
		return nil, execproto.UnknownProcess(params.ProcessID)
	case !p.tty:
		return nil, execproto.InvalidRequest(fmt.Sprintf("process %s has no terminal; start it with tty", shorten(p.id)))
	default:
		return reply.Done{}, p.running.Resize(params.Rows, params.Cols)
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

// processSignal signals a process. An unknown or ended process is not an error.
func processSignal(c *conn, params *execproto.SignalParams) (call, error) {
	wanted := *params
	switch {
	case params.Session != "":
		return call{run: func(context.Context) (reply.Result, error) {
			p, err := c.processOf(wanted.Session, wanted.ProcessID)
			if err != nil || p.now() == nil {
				return reply.Done{}, err
			}
			return sendSignal(p, &wanted)
		}}, nil
	case c.isDetached(params.ProcessID):
		return signalDetached(c, params)
	}
	return orderedCall(c, params.ProcessID, func(p *proc) (reply.Result, error) { return sendSignal(p, &wanted) }), nil
}

func sendSignal(p *proc, params *execproto.SignalParams) (reply.Result, error) {
	sig, ok := signals[params.Signal]
	switch {
	case !ok:
		return nil, execproto.InvalidParams(fmt.Sprintf("unknown variant `%s`", shorten(string(params.Signal))))
	case p == nil:
		return reply.Done{}, nil
	default:
		if p.output != nil {
			p.output.Overshoot()
		}
		return reply.Done{}, p.running.Signal(sig)
	}
}

// processTerminate kills a process with its descendants. A start is cancelled at
// once: the request must not wait for the turn that the start has.
func processTerminate(c *conn, params *execproto.TerminateParams) (call, error) {
	if params.Session != "" {
		wanted := *params
		return call{run: func(context.Context) (reply.Result, error) {
			p, err := c.processOf(wanted.Session, wanted.ProcessID)
			if err != nil {
				return nil, err
			}
			return execproto.TerminateResult{Running: p.terminateNow()}, nil
		}}, nil
	}
	if c.isDetached(params.ProcessID) {
		return terminateDetached(c, &execproto.ProcessParams{ProcessID: params.ProcessID})
	}
	if p := c.session.find(params.ProcessID); p != nil && p.cancelStart() {
		return call{run: func(context.Context) (reply.Result, error) { return execproto.TerminateResult{Running: true}, nil }}, nil
	}
	return orderedCall(c, params.ProcessID, func(p *proc) (reply.Result, error) {
		if p == nil {
			return execproto.TerminateResult{Running: false}, nil
		}
		// The client is no longer asked about descendants of an exited process.
		p.stopAsking()
		if p.output != nil {
			p.output.Release()
		}
		return execproto.TerminateResult{Running: p.running.Terminate()}, nil
	}), nil
}
