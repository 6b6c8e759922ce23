package detach

import (
	"context"
	"errors"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/host/outputlog"
)

// Writer is a session that writes to a process.
type Writer interface {
	// Connected reports whether the session has a connection.
	Connected() bool
}

// MayWrite reports whether a session may write to the process. Only one session may write at a
// time: the first that claims the process, for as long as it has a connection.
func (k *Process) MayWrite(s Writer, claim bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w := k.writer; w != nil && w != s && w.Connected() {
		return false
	}
	if claim {
		k.writer = s
	}
	return true
}

// Read reads retained output. It divides a long wait into several requests, because a keeper
// does not learn that a client no longer waits.
func (k *Process) Read(ctx context.Context, params *execproto.ReadParams) (execproto.ReadResult, error) {
	left := params.Wait()
	for {
		part := *params
		part.WaitMS = new(uint64(min(left, keeperWait) / time.Millisecond))
		var r execproto.ReadResult
		err := k.Call(ctx, execproto.MethodProcessRead, &part, &r)
		switch {
		case errors.Is(err, ErrEnded):
			return k.readEnded(ctx, params)
		case err != nil:
			return r, err
		}
		if r.Closed {
			k.disconnect() // the keeper waits until this connection has ended
		}
		left -= keeperWait
		if left <= 0 || len(r.Chunks) > 0 || r.Dropped != nil || r.Exited || ctx.Err() != nil {
			return r, nil
		}
	}
}

// readEnded reads the output of an ended process.
func (k *Process) readEnded(ctx context.Context, params *execproto.ReadParams) (execproto.ReadResult, error) {
	var r execproto.ReadResult
	err := k.store.Blocking(ctx, func() error {
		log, err := k.ended()
		if err == nil {
			r, err = ReadLog(log, params, true)
		}
		return err
	})
	return r, err
}

// ReadLog answers a process/read from a log. final means that the log is complete.
func ReadLog(log *outputlog.Log, params *execproto.ReadParams, final bool) (execproto.ReadResult, error) {
	after, most := params.After(), uint64(maxDetachedRead)
	if params.MaxBytes != nil {
		most = min(*params.MaxBytes, most)
	}
	got, err := log.Read(after, int(most))
	if err != nil {
		return execproto.ReadResult{}, execproto.Internal("read retained output: " + err.Error())
	}
	r := execproto.ReadResult{
		Chunks: make([]execproto.OutputChunk, len(got.Chunks)), NextSeq: got.Next, Waiting: got.Waiting,
		Exited: got.Status.Exited, Closed: got.Status.Closed, SandboxDenied: got.Status.Denied,
	}
	for i, c := range got.Chunks {
		r.Chunks[i] = execproto.OutputChunk{Seq: c.Seq, Stream: execproto.Stream(c.Stream), Chunk: c.Data}
		if params.Times {
			r.Chunks[i].ElapsedSeconds = uint64(c.Elapsed / time.Second)
		}
	}
	if d := got.Dropped; d != nil {
		r.Dropped = &execproto.EventRange{First: d.First, Last: d.Last}
	}
	if got.Status.Exited {
		r.ExitCode = &got.Status.ExitCode
	}
	if reason := got.Status.Refusal; reason != "" {
		r.Failure = &reason
	}
	if final && !got.Status.Closed {
		r.Exited, r.Closed, r.Failure = true, true, new(lostEnd)
		if r.ExitCode == nil {
			r.ExitCode = new(-1)
		}
	}
	return r, nil
}

// lostEnd is the error text for a process whose keeper was killed.
const lostEnd = "the keeper of the process was ended, and the process with it"

// Describe returns the current state of a process.
func (k *Process) Describe(ctx context.Context) execproto.DetachedProcess {
	p := execproto.DetachedProcess{
		ProcessID: k.Record.ProcessID, Argv: k.Record.Argv, Cwd: k.Record.Cwd, TTY: k.Record.TTY,
		StartedAtMS: k.Record.StartedAtMS, Retain: k.Record.Retain.wire(),
	}
	ctx, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	// A read after the last event returns no output and does not wait.
	after := uint64(1) << 62
	r, err := k.Read(ctx, &execproto.ReadParams{ProcessID: p.ProcessID, AfterSeq: &after})
	if err != nil {
		p.Failure = "its keeper does not answer: " + err.Error()
		return p
	}
	p.Exited, p.ExitCode, p.Closed, p.Waiting = r.Exited, r.ExitCode, r.Closed, r.Waiting
	if r.Failure != nil {
		p.Failure = *r.Failure
	}
	if log, err := outputlog.Open(k.root); err == nil {
		state, status := log.State(), log.Status()
		p.Retained, p.FirstSeq, p.EndedAtMS = uint64(state.Bytes), state.First, status.EndedAtMS
	}
	return p
}

// Forget removes the files of an ended process.
func (k *Process) Forget(ctx context.Context) error {
	if k.Alive() {
		r, err := k.Read(ctx, &execproto.ReadParams{ProcessID: k.Record.ProcessID})
		switch {
		case err != nil:
			return err
		case !r.Closed:
			return execproto.InvalidRequest("process " + observe.Short(k.Record.ProcessID) + " is running; end it first")
		}
		k.disconnect()
		k.awaitEnd(ctx)
	}
	return k.store.remove(k)
}

// Usage returns the current usage of the process, from its keeper; nil: unknown, for example because
// the keeper is from an earlier release.
func (k *Process) Usage(ctx context.Context) *execproto.ProcessUsage {
	ctx, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	client, err := k.connect(ctx)
	if err != nil || !client.Has(execproto.ExtensionUsage) {
		return nil
	}
	var list execproto.ListResult
	if err := client.Call(ctx, execproto.MethodProcessList, &execproto.ListParams{Usage: true}, &list); err != nil || len(list.Processes) == 0 {
		return nil
	}
	return list.Processes[0].Usage
}
