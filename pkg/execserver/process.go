//go:build linux || darwin

package execserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/envpolicy"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/wire/pathuri"
)

// processStart registers the process on the reader, so that what follows can
// name it, and starts it in the ordinary lane.
func processStart(rq *request, params *execproto.StartParams) {
	c := rq.c
	spec, err := c.srv.startSpec(params)
	if err != nil {
		rq.fail(err)
		return
	}
	intent, err := c.srv.processIntent(params, spec.Dir)
	if err != nil {
		rq.fail(err)
		return
	}
	ctx, stop := context.WithCancel(c.session.ctx)
	// The id is a copy: the params may lie in the request's message.
	p := &proc{
		s: c.session, id: strings.Clone(params.ProcessID), argv: spec.Argv,
		tty: spec.TTY, startedAt: time.Now(), stop: stop,
	}
	if err := c.session.add(p); err != nil {
		stop()
		rq.fail(err)
		return
	}
	log := c.log.With("process", shorten(p.id))
	if m := params.Metadata; m != nil {
		log = log.With("thread", shorten(m.ThreadID), "call", shorten(m.ToolCallID))
	}
	rq.work("", func(context.Context) {
		defer stop()
		kind := sandboxNone
		var running *process.Process
		if intent != nil {
			kind = sandboxLinux
			p.confined = true
			c.srv.confined.record()
			running, err = p.startConfined(ctx, intent, spec)
		} else {
			running, err = p.s.group.Start(ctx, spec, p)
		}
		if err != nil {
			p.s.remove(p)
			if p.started(nil) {
				err = internal("process " + shorten(p.id) + " was terminated while it was starting")
			}
			log.Info("process did not start", "error", err)
			rq.fail(err)
			return
		}
		log.Info("process started", "pid", running.Pid(), "tty", spec.TTY, "sandbox", kind)
		rq.result(execproto.StartResult{ProcessID: p.id, SandboxType: kind})
		if p.started(running) {
			running.Terminate()
		}
		running.OpenGate()
	})
}

// startSpec turns the params of process/start into what to run.
func (srv *Server) startSpec(p *execproto.StartParams) (process.Spec, error) {
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
	var policy *envpolicy.Policy
	if e := p.EnvPolicy; e != nil {
		policy = &envpolicy.Policy{
			Inherit: e.Inherit, IgnoreDefaultExcludes: e.IgnoreDefaultExcludes,
			Exclude: e.Exclude, Set: e.Set, IncludeOnly: e.IncludeOnly,
		}
	}
	spec := process.Spec{
		Argv: cloneAll(p.Argv), Arg0: p.Arg0, Dir: cwd,
		Env: envpolicy.Environ(os.Environ(), policy, p.Env),
		TTY: p.TTY, PipeStdin: p.PipeStdin, Window: p.OutputWindow,
	}
	if p.Size != nil {
		spec.Rows, spec.Cols = p.Size.Rows, p.Size.Cols
	}
	return spec, nil
}

// cloneAll copies strings that may lie in a message.
func cloneAll(in []string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = strings.Clone(s)
	}
	return out
}

func unknownProcess(id string) error { return invalid("unknown process id " + shorten(id)) }

// processRead answers process/read, with retained output. It waits up to waitMs
// if there is none.
func processRead(rq *request, params *execproto.ReadParams) {
	p := rq.c.session.find(params.ProcessID)
	if p == nil {
		rq.fail(unknownProcess(params.ProcessID))
		return
	}
	var after uint64
	if params.AfterSeq != nil {
		after = *params.AfterSeq
	}
	var wait time.Duration
	if params.WaitMS != nil {
		wait = time.Duration(min(*params.WaitMS, uint64(maxWait/time.Millisecond))) * time.Millisecond
	}
	rq.wait(func(ctx context.Context) {
		running, err := p.waitStarted(ctx)
		if err != nil {
			rq.fail(err)
			return
		}
		r, err := running.Read(ctx, after, params.MaxBytes, wait)
		if err != nil {
			rq.fail(err)
			return
		}
		defer r.Release()
		rq.result(readResult(&r))
	})
}

// waitStarted waits for the end of a process's start.
func (p *proc) waitStarted(ctx context.Context) (*process.Process, error) {
	started := make(chan *process.Process, 1)
	p.whenStarted(func(running *process.Process) { started <- running })
	select {
	case running := <-started:
		if running == nil {
			return nil, unknownProcess(p.id)
		}
		return running, nil
	case <-ctx.Done():
		return nil, execproto.ProcessStarting(shorten(p.id))
	}
}

func readResult(r *process.ReadResult) execproto.ReadResult {
	chunks := make([]execproto.OutputChunk, len(r.Chunks))
	for i, c := range r.Chunks {
		chunks[i] = execproto.OutputChunk{Seq: c.Seq, Stream: execproto.Stream(c.Stream), Chunk: c.Data}
	}
	return execproto.ReadResult{
		Chunks: chunks, NextSeq: r.NextSeq, Exited: r.Exited, ExitCode: r.ExitCode,
		Closed: r.Closed, Failure: r.Failure, SandboxDenied: r.SandboxDenied,
	}
}

// processWrite queues the write on the reader, which keeps the order of
// writes, and answers when the process's stdin has taken it.
func processWrite(rq *request, params *execproto.WriteParams) {
	p := rq.c.session.find(params.ProcessID)
	if p == nil {
		rq.finishWrite(params, process.WriteResult{Status: process.WriteUnknown})
		return
	}
	if !rq.park() {
		return
	}
	size := rq.size()
	// A write outlives its connection: it was queued, and a client that
	// resumes the session sends it again under the same id.
	done := func(w process.WriteResult) {
		rq.unpark(size)
		rq.finishWrite(params, w)
	}
	p.whenStarted(func(running *process.Process) {
		if running == nil {
			done(process.WriteResult{Status: process.WriteUnknown})
			return
		}
		running.Write(params.Chunk, params.WriteID, done)
	})
}

// finishWrite answers a write. Without a writeId a closed stdin and an unknown
// process are errors; with one they are statuses (docs/spec/wire.md §4.5).
func (rq *request) finishWrite(params *execproto.WriteParams, w process.WriteResult) {
	switch {
	case w.Err != nil:
		rq.fail(w.Err)
	case params.WriteID == nil && w.Status == process.WriteUnknown:
		rq.fail(unknownProcess(params.ProcessID))
	case params.WriteID == nil && w.Status == process.WriteStdinClosed:
		const why = "it was started without pipeStdin, was closed, or the process has ended"
		rq.fail(invalid(fmt.Sprintf("stdin of process %s is closed: %s", shorten(params.ProcessID), why)))
	default:
		rq.result(execproto.WriteResult{Status: execproto.WriteStatus(w.Status)})
	}
}

// processCloseStdin closes stdin after the earlier writes.
func processCloseStdin(rq *request, params *execproto.ProcessParams) {
	p := rq.c.session.find(params.ProcessID)
	if p == nil {
		rq.fail(unknownProcess(params.ProcessID))
		return
	}
	if !rq.park() {
		return
	}
	size := rq.size()
	done := func(err error) {
		rq.unpark(size)
		rq.finish(err)
	}
	id := p.id
	p.whenStarted(func(running *process.Process) {
		if running == nil {
			done(unknownProcess(id))
			return
		}
		running.CloseStdin(done)
	})
}

// processAck makes room in a process's window. An unknown process is no error:
// it may have been forgotten meanwhile.
func processAck(c *conn, params *execproto.ProcessAck) {
	if p := c.session.find(params.ProcessID); p != nil {
		p.ack(params.Seq)
	}
}

// processResize sets a terminal's size.
func processResize(rq *request, params *execproto.ResizeParams) {
	p := rq.c.session.find(params.ProcessID)
	if p == nil {
		rq.fail(unknownProcess(params.ProcessID))
		return
	}
	p.whenStarted(func(running *process.Process) {
		switch {
		case running == nil:
			rq.fail(unknownProcess(p.id))
		case !p.tty:
			rq.fail(invalid(fmt.Sprintf("process %s has no terminal; start it with tty", shorten(p.id))))
		default:
			rq.finish(running.Resize(params.Rows, params.Cols))
		}
	})
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
func processSignal(rq *request, params *execproto.SignalParams) {
	p := rq.c.session.find(params.ProcessID)
	sig, ok := signals[params.Signal]
	switch {
	case !ok:
		rq.fail(invalidParams(fmt.Sprintf("unknown variant `%s`", shorten(string(params.Signal)))))
		return
	case p == nil:
		rq.empty()
		return
	}
	p.whenStarted(func(running *process.Process) {
		if running == nil {
			rq.empty()
			return
		}
		rq.finish(running.Signal(sig))
	})
}

// processTerminate kills a process with its descendants, or cancels its start.
func processTerminate(rq *request, params *execproto.ProcessParams) {
	p := rq.c.session.find(params.ProcessID)
	switch {
	case p == nil:
		rq.result(execproto.TerminateResult{Running: false})
	case p.cancelStart():
		rq.result(execproto.TerminateResult{Running: true})
	default:
		p.whenStarted(func(running *process.Process) {
			if running == nil {
				rq.result(execproto.TerminateResult{Running: false})
				return
			}
			rq.control("", func(context.Context) {
				rq.result(execproto.TerminateResult{Running: running.Terminate()})
			})
		})
	}
}

// processList lists the processes of the session in the order of their
// starts.
func processList(rq *request) {
	procs := rq.c.session.all()
	slices.SortFunc(procs, func(a, b *proc) int {
		if d := a.startedAt.Compare(b.startedAt); d != 0 {
			return d
		}
		return strings.Compare(a.id, b.id)
	})
	list := execproto.ListResult{Processes: make([]execproto.ProcessInfo, 0, len(procs))}
	for _, p := range procs {
		info := execproto.ProcessInfo{
			ProcessID: p.id, Argv: p.argv, StartedAtMS: p.startedAt.UnixMilli(), TTY: p.tty,
		}
		p.mu.Lock()
		running := p.running
		p.mu.Unlock()
		if running != nil {
			state := running.State()
			info.Exited, info.ExitCode, info.Closed = state.Exited, state.ExitCode, state.Closed
		}
		list.Processes = append(list.Processes, info)
	}
	rq.result(list)
}
