package execserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/host/outputlog"
	"codex.internal/pkg/host/process"
)

// errNoDetach is the error of requests about detached processes on a server that has none.
var errNoDetach = execproto.InvalidRequest("this server keeps no detached processes: it was started without a directory to retain output in (--retain-dir)")

// ownerOf returns the owner of the detached processes that a connection may see
// (docs/spec/wire.md §4.10): its principal. At a relay that is the key of the client, which a
// client must keep to see its processes again. Standard input and output belong to the user
// of this program.
func (c *conn) ownerOf() (string, error) {
	if c.srv.detached == nil {
		return "", errNoDetach
	}
	owner, err := c.lastingOwner()
	if err != nil {
		err = execproto.InvalidRequest("a detached process needs an owner, and " + err.Error())
	}
	return owner, err
}

// lastingOwner returns the principal of a connection that a later one of the same client
// has, too, or an error that says why there is none.
func (c *conn) lastingOwner() (string, error) {
	switch {
	case c.t.Peer() == "stdio":
		return userPrincipal(os.Geteuid()), nil
	case c.principal == "" || c.principal == anybody:
		return "", errors.New("this server does not ask who its clients are")
	default:
		return c.principal, nil
	}
}

// isDetached reports whether a request is about a detached process: by the form of the id,
// unless the session has a process of that id itself.
func (c *conn) isDetached(id string) bool {
	return strings.HasPrefix(id, execproto.DetachedPrefix) && c.session.find(id) == nil
}

// checkHandle checks the id of a detached process that is to be started.
func checkHandle(id string) error {
	name, ok := strings.CutPrefix(id, execproto.DetachedPrefix)
	good := ok && len(name) > 0 && len(name) <= execproto.MaxHandleName
	for i, r := range name {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		good = good && (letter || i > 0 && strings.ContainsRune("._-", r))
	}
	if !good {
		return execproto.InvalidParams(fmt.Sprintf("processId of a detached process must be %sNAME, with a NAME of 1 to %d letters, digits, dots, hyphens and underscores that begins with a letter or digit, not `%s`",
			execproto.DetachedPrefix, execproto.MaxHandleName, shorten(id)))
	}
	return nil
}

// detachedCall returns a call about a detached process, which runs without a slot: it waits
// for the process's keeper. Calls with the same key run in the order of their requests;
// "" is no order.
func (c *conn) detachedCall(id, key string, handle func(ctx context.Context, k *kept) (result, error)) (call, error) {
	owner, err := c.ownerOf()
	if err != nil {
		return call{}, err
	}
	var t *turn
	if key != "" {
		t = c.session.order.enter(id + "/" + key)
	}
	return call{turn: t, waits: true, run: func(ctx context.Context) (result, error) {
		k, err := c.srv.detached.find(owner, id)
		if err != nil {
			return nil, err
		}
		return handle(ctx, k)
	}}, nil
}

// The keys of the orders of requests about a detached process: input must come in the order
// sent, and a signal must not wait for input that a full pipe holds up.
const (
	inputOrder   = "input"
	controlOrder = "control"
)

// forward returns a call that passes a request on to the keeper of a detached process.
// ended is the answer if the process has ended.
func forward[R any, O execproto.Pointer[R]](c *conn, id, key, method string, params execproto.Object, ended func() (result, error)) (call, error) {
	return c.detachedCall(id, key, func(ctx context.Context, k *kept) (result, error) {
		if own := c.grant.Ceiling; key == inputOrder && own != (wsauth.Ceiling{}) && own != k.record.Ceiling {
			return nil, execproto.InvalidRequest("process " + shorten(id) + " was started under other ceilings than those of this token; write to it with a token like that of its start")
		}
		if (key == inputOrder || method == execproto.MethodProcessResize) && !k.mayWrite(c.session, key == inputOrder) {
			return nil, execproto.InvalidRequest("another client writes to process " + shorten(id) + ", until its connection ends")
		}
		answer := O(new(R))
		err := k.call(ctx, method, params, answer)
		switch {
		case errors.Is(err, errKeeperEnded):
			return ended()
		case err != nil:
			return nil, err
		}
		text, err := execproto.Append(nil, answer)
		return encoded(text), err
	})
}

// mayWrite reports whether a session may write to the process: one does at a time, the first
// that claims it, for as long as it has a connection.
func (k *kept) mayWrite(s *session, claim bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w := k.writer; w != nil && w != s && w.attached() != nil {
		return false
	}
	if claim {
		k.writer = s
	}
	return true
}

// writeDetached answers process/write about a detached process.
func writeDetached(c *conn, params *execproto.WriteParams) (call, error) {
	return forward[execproto.WriteResult](c, params.ProcessID, inputOrder, execproto.MethodProcessWrite, params, func() (result, error) {
		return writeResult(params, process.WriteResult{Status: process.WriteStdinClosed})
	})
}

// closeStdinDetached answers process/closeStdin about a detached process.
func closeStdinDetached(c *conn, params *execproto.ProcessParams) (call, error) {
	return forward[execproto.Empty](c, params.ProcessID, inputOrder, execproto.MethodProcessCloseStdin, params, isDone)
}

// resizeDetached answers process/resize about a detached process.
func resizeDetached(c *conn, params *execproto.ResizeParams) (call, error) {
	return forward[execproto.Empty](c, params.ProcessID, controlOrder, execproto.MethodProcessResize, params, isDone)
}

// signalDetached answers process/signal about a detached process.
func signalDetached(c *conn, params *execproto.SignalParams) (call, error) {
	return forward[execproto.Empty](c, params.ProcessID, controlOrder, execproto.MethodProcessSignal, params, isDone)
}

// terminateDetached answers process/terminate about a detached process.
func terminateDetached(c *conn, params *execproto.ProcessParams) (call, error) {
	return forward[execproto.TerminateResult](c, params.ProcessID, controlOrder, execproto.MethodProcessTerminate, params, func() (result, error) {
		return execproto.TerminateResult{Running: false}, nil
	})
}

// isDone is the answer about a process that has ended.
func isDone() (result, error) { return done{}, nil }

// forwardRead answers process/read about a detached process: by its keeper, and from disk
// when that has ended.
func forwardRead(c *conn, params *execproto.ReadParams) (call, error) {
	return c.detachedCall(params.ProcessID, "", func(ctx context.Context, k *kept) (result, error) {
		r, err := k.read(ctx, params)
		return r, err
	})
}

// read reads retained output. A wait is passed on in parts, because a keeper is not told
// when a client no longer waits.
func (k *kept) read(ctx context.Context, params *execproto.ReadParams) (execproto.ReadResult, error) {
	left := waitOf(params)
	for {
		part := *params
		part.WaitMS = new(uint64(min(left, keeperWait) / time.Millisecond))
		var r execproto.ReadResult
		err := k.call(ctx, execproto.MethodProcessRead, &part, &r)
		switch {
		case errors.Is(err, errKeeperEnded):
			return k.readEnded(ctx, params)
		case err != nil:
			return r, err
		}
		if r.Closed {
			k.disconnect() // the keeper waits for that
		}
		left -= keeperWait
		if left <= 0 || len(r.Chunks) > 0 || r.Dropped != nil || r.Exited || ctx.Err() != nil {
			return r, nil
		}
	}
}

// readEnded reads what a process has left behind.
func (k *kept) readEnded(ctx context.Context, params *execproto.ReadParams) (execproto.ReadResult, error) {
	return withThread(ctx, func() (execproto.ReadResult, error) {
		log, err := k.ended()
		if err != nil {
			return execproto.ReadResult{}, err
		}
		return readLog(log, params, true)
	})
}

// afterSeq returns the number above which a process/read reads.
func afterSeq(params *execproto.ReadParams) uint64 {
	if params.AfterSeq == nil {
		return 0
	}
	return *params.AfterSeq
}

// waitOf returns how long a process/read waits.
func waitOf(params *execproto.ReadParams) time.Duration {
	if params.WaitMS == nil {
		return 0
	}
	return time.Duration(min(*params.WaitMS, uint64(maxWait/time.Millisecond))) * time.Millisecond
}

// readLog answers a process/read from a log. final says that nothing writes to it any more.
func readLog(log *outputlog.Log, params *execproto.ReadParams, final bool) (execproto.ReadResult, error) {
	after, most := afterSeq(params), uint64(maxDetachedRead)
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

// lostEnd is the failure of a process whose keeper was killed.
const lostEnd = "the keeper of the process was ended, and the process with it"

// listDetached answers process/listDetached with the owner's processes.
func listDetached(ctx context.Context, c *conn, params *execproto.ListParams) (result, error) {
	owner, err := c.ownerOf()
	if err != nil {
		return nil, err
	}
	list := execproto.DetachedResult{Processes: []execproto.DetachedProcess{}}
	for _, k := range c.srv.detached.all(owner) {
		p := k.describe(ctx)
		if params.Usage && !p.Closed && p.Failure == "" {
			p.Usage = k.usage(ctx)
		}
		list.Processes = append(list.Processes, p)
	}
	return list, nil
}

// describe tells of a process what is known at the moment.
func (k *kept) describe(ctx context.Context) execproto.DetachedProcess {
	p := execproto.DetachedProcess{
		ProcessID: k.record.ProcessID, Argv: k.record.Argv, Cwd: k.record.Cwd, TTY: k.record.TTY,
		StartedAtMS: k.record.StartedAtMS, Retain: k.record.Retain.wire(),
	}
	ctx, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	// A read behind every event returns no output and does not wait.
	after := uint64(1) << 62
	r, err := k.read(ctx, &execproto.ReadParams{ProcessID: p.ProcessID, AfterSeq: &after})
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

// forget answers process/forget: it removes what an ended process has left.
func forget(c *conn, params *execproto.ProcessParams) (call, error) {
	return c.detachedCall(params.ProcessID, controlOrder, func(ctx context.Context, k *kept) (result, error) {
		if k.alive() {
			r, err := k.read(ctx, &execproto.ReadParams{ProcessID: params.ProcessID})
			switch {
			case err != nil:
				return nil, err
			case !r.Closed:
				return nil, execproto.InvalidRequest("process " + shorten(params.ProcessID) + " is running; end it first")
			}
			k.disconnect()
			k.awaitEnd(ctx)
		}
		return done{}, k.store.remove(k)
	})
}
