package execclient

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	"codex.internal/pkg/execproto"
)

// Detached is a process on the server that belongs to a user or token, and not to a session:
// it continues after this client has ended, and after the server has. Its methods may be
// called from any goroutine. It has no resources to close.
type Detached struct {
	c  *Client
	id string

	mu      sync.Mutex
	writer  string // prefix of the ids of writes, unique to this client
	writeID uint64
}

// StartDetached starts a detached process. The ProcessID of the params is its handle, without
// a prefix; Detach is set here. If the connection is lost before the answer, the start is sent
// again; the process is still started only once. Errors are those of Start;
// execproto.IsProcessExists reports whether the handle is in use.
func (c *Client) StartDetached(ctx context.Context, params execproto.StartParams) (*Detached, error) {
	if !c.Has(execproto.ExtensionDetach) {
		return nil, ErrUnsupported
	}
	d := c.Detached(params.ProcessID)
	params.ProcessID, params.Detach = d.id, &execproto.Detach{StartID: randomWord()}
	if params.Env == nil {
		params.Env = map[string]string{}
	}
	raw, err := encode(execproto.MethodProcessStart, &params)
	if err != nil {
		return nil, err
	}
	m, err := c.call(ctx, execproto.MethodProcessStart, raw, true)
	if err == nil {
		err = decodeAnswer(execproto.MethodProcessStart, m, nil)
	}
	return d, startError(err)
}

// randomWord returns a unique word.
func randomWord() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Detached returns the detached process with a handle. It does not ask the server: with an
// unknown handle, the methods fail.
func (c *Client) Detached(handle string) *Detached {
	return &Detached{c: c, id: execproto.DetachedPrefix + handle, writer: randomWord()}
}

// ListDetached returns the detached processes of this client's user or token in the order of
// their starts, including retained ones that have ended.
func (c *Client) ListDetached(ctx context.Context) ([]execproto.DetachedProcess, error) {
	return c.listDetached(ctx, nil)
}

func (c *Client) listDetached(ctx context.Context, params execproto.Object) ([]execproto.DetachedProcess, error) {
	if !c.Has(execproto.MethodProcessDetached) {
		return nil, ErrUnsupported
	}
	var r execproto.DetachedResult
	err := c.Call(ctx, execproto.MethodProcessDetached, params, &r)
	return r.Processes, err
}

// ListDetachedUsage is ListDetached with DetachedProcess.Usage, if the server supports it.
func (c *Client) ListDetachedUsage(ctx context.Context) ([]execproto.DetachedProcess, error) {
	if !c.Has(execproto.ExtensionUsage) {
		return c.ListDetached(ctx)
	}
	return c.listDetached(ctx, &execproto.ListParams{Usage: true})
}

// ListProcesses returns the processes of sessions, in the order of their starts: those of
// this client's session, of all sessions of its principal, or of all sessions of the server.
// If several sessions are asked for, ProcessInfo.Argv has the beginning of the command line. A server without the extension has only those of this session, without their
// usage.
func (c *Client) ListProcesses(ctx context.Context, params execproto.ListParams) (execproto.ListResult, error) {
	var r execproto.ListResult
	own := params.Scope == "" || params.Scope == execproto.ListSession
	switch {
	case c.Has(execproto.ExtensionUsage):
		err := c.Call(ctx, execproto.MethodProcessList, &params, &r)
		return r, err
	case c.Has(execproto.MethodProcessList) && own:
		err := c.Call(ctx, execproto.MethodProcessList, nil, &r)
		return r, err
	}
	return r, ErrUnsupported
}

// TerminateOther kills a process of another session with its descendants and reports whether it was running.
// ListProcesses names the session and the process.
func (c *Client) TerminateOther(ctx context.Context, session, processID string) (bool, error) {
	if !c.Has(execproto.ExtensionEndOthers) {
		return false, ErrUnsupported
	}
	var r execproto.TerminateResult
	err := c.Call(ctx, execproto.MethodProcessTerminate, &execproto.TerminateParams{ProcessID: processID, Session: session}, &r)
	return r.Running, err
}

// SignalOther signals the group of a process of another session. An ended process is no error.
func (c *Client) SignalOther(ctx context.Context, session, processID string, s execproto.Signal) error {
	if !c.Has(execproto.ExtensionEndOthers) {
		return ErrUnsupported
	}
	return c.Call(ctx, execproto.MethodProcessSignal, &execproto.SignalParams{ProcessID: processID, Signal: s, Session: session}, nil)
}

// Handle returns the handle.
func (d *Detached) Handle() string { return strings.TrimPrefix(d.id, execproto.DetachedPrefix) }

// FollowOptions configure Follow.
type FollowOptions struct {
	// After is the number of the last event to skip; 0: begin with the first.
	After uint64
	// Wait makes Follow continue until the process has closed. Without it, Follow ends with
	// the output that exists now.
	Wait bool
	// Consume acknowledges the yielded output: the server may drop it, and a process that
	// waits for space continues.
	Consume bool
	// Times asks for OutputChunk.ElapsedSeconds.
	Times bool
}

// Follow yields the process's output in order, in parts. ReadResult.Dropped lists events that
// are no longer retained. The last part has no chunks; it has the exit code if the process
// has ended. Lost connections are recovered by the client, and no output is yielded twice.
func (d *Detached) Follow(ctx context.Context, o FollowOptions) iter.Seq2[execproto.ReadResult, error] {
	return func(yield func(execproto.ReadResult, error) bool) {
		after, most, wait := o.After, uint64(refetchBytes), uint64(0)
		if o.Wait {
			wait = uint64(followWait / time.Millisecond)
		}
		for {
			at := after
			r, err := d.read(ctx, execproto.ReadParams{AfterSeq: &at, MaxBytes: &most, WaitMS: &wait, Consume: o.Consume, Times: o.Times})
			if err != nil {
				yield(r, err)
				return
			}
			n := len(r.Chunks)
			if n > 0 {
				after = r.Chunks[n-1].Seq
			} else {
				after = max(after, r.NextSeq-min(r.NextSeq, 1))
			}
			over := n == 0 && r.Dropped == nil && (r.Closed || !o.Wait)
			if (n > 0 || r.Dropped != nil || over || r.Waiting != "") && !yield(r, nil) || over {
				return
			}
		}
	}
}

// State returns the state of the process, without output.
func (d *Detached) State(ctx context.Context) (execproto.ReadResult, error) {
	after := uint64(1) << 62 // after every event
	return d.read(ctx, execproto.ReadParams{AfterSeq: &after})
}

func (d *Detached) read(ctx context.Context, params execproto.ReadParams) (execproto.ReadResult, error) {
	params.ProcessID = d.id
	var r execproto.ReadResult
	err := d.c.Call(ctx, execproto.MethodProcessRead, &params, &r)
	return r, err
}

// Wait waits until the process has closed, and returns its last state.
func (d *Detached) Wait(ctx context.Context) (execproto.ReadResult, error) {
	wait := uint64(followWait / time.Millisecond)
	for {
		r, err := d.State(ctx)
		if err != nil || r.Closed {
			return r, err
		}
		after := r.NextSeq - min(r.NextSeq, 1)
		if _, err := d.read(ctx, execproto.ReadParams{AfterSeq: &after, MaxBytes: new(uint64), WaitMS: &wait}); err != nil {
			return r, err
		}
	}
}

// Write writes to the process's stdin, only once even if the connection is lost meanwhile.
// It returns when the server has accepted the data. Errors are those of Process.Stdin's
// writer.
func (d *Detached) Write(ctx context.Context, data []byte) error {
	d.mu.Lock()
	d.writeID++
	id := d.writer + "-" + strconv.FormatUint(d.writeID, 10)
	d.mu.Unlock()
	raw, err := encode(execproto.MethodProcessWrite, &execproto.WriteParams{ProcessID: d.id, Chunk: data, WriteID: &id})
	if err != nil {
		return err
	}
	m, err := d.c.call(ctx, execproto.MethodProcessWrite, raw, true)
	if err != nil {
		return err
	}
	var r execproto.WriteResult
	if err := decodeAnswer(execproto.MethodProcessWrite, m, &r); err != nil {
		return err
	}
	return statusError(r.Status)
}

// CloseStdin ends the process's input after the data that was written before.
func (d *Detached) CloseStdin(ctx context.Context) error {
	return d.c.Call(ctx, execproto.MethodProcessCloseStdin, &execproto.ProcessParams{ProcessID: d.id}, nil)
}

// Resize sets the size of the process's terminal.
func (d *Detached) Resize(ctx context.Context, rows, cols uint16) error {
	return d.c.Call(ctx, execproto.MethodProcessResize, &execproto.ResizeParams{ProcessID: d.id, Rows: rows, Cols: cols}, nil)
}

// Signal signals the process's group. An ended process is no error.
func (d *Detached) Signal(ctx context.Context, s execproto.Signal) error {
	return d.c.Call(ctx, execproto.MethodProcessSignal, &execproto.SignalParams{ProcessID: d.id, Signal: s}, nil)
}

// Terminate kills the process with its descendants and reports whether it was running.
func (d *Detached) Terminate(ctx context.Context) (bool, error) {
	var r execproto.TerminateResult
	err := d.c.Call(ctx, execproto.MethodProcessTerminate, &execproto.ProcessParams{ProcessID: d.id}, &r)
	return r.Running, err
}

// Forget removes the retained output of a process that has ended. Its handle can be used
// again.
func (d *Detached) Forget(ctx context.Context) error {
	return d.c.Call(ctx, execproto.MethodProcessForget, &execproto.ProcessParams{ProcessID: d.id}, nil)
}
