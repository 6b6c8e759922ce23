package execserver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/detach"
	"codex.internal/pkg/execserver/files"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/host/process"
)

// This file connects the methods about detached processes with pkg/execserver/detach.

// openDetached opens the store of detached processes, if the server is configured to have them.
func (srv *Server) openDetached() {
	o := srv.opts
	if o.RetainDir == "" {
		return
	}
	reason := ""
	switch {
	case !o.Process.Subreaper:
		reason = process.ErrNoKeepers.Error()
	case len(o.Keeper.Command) == 0:
		reason = "no command for keepers"
	case !filepath.IsAbs(o.RetainDir):
		reason = "the directory is not absolute"
	}
	if reason != "" {
		srv.log.Warn("detached processes are not available", "reason", reason)
		return
	}
	workDir := srv.cwd
	if workDir == "" {
		workDir = "/"
	}
	srv.detached = detach.NewStore(detach.Options{
		Dir: filepath.Clean(o.RetainDir), Bytes: o.RetainBytes, DefaultBytes: DefaultRetain, For: o.RetainFor, Max: o.MaxDetached, HasWhole: srv.hasWhole,
		Command: o.Keeper.Command, WorkDir: workDir, Settings: func() any { return o.Keeper.Settings(*srv.rules.Load()) }, Version: o.Version, Supervisor: srv.supervisor,
		Events: srv.events, Log: srv.log, Audited: o.Audit != nil, Traced: o.Tracer != nil,
		Blocking: func(ctx context.Context, f func() error) error {
			_, err := files.Blocking(ctx, func() (struct{}, error) { return struct{}{}, f() })
			return err
		},
	})
	srv.metrics.AddDetached(srv.events, srv.detached.Count)
	srv.wg.Go(func() { srv.detached.Run(srv.stopped) })
}

// errNoDetach is the error of requests about detached processes if the server has no store for
// them.
var errNoDetach = execproto.InvalidRequest("this server does not support detached processes: it was started without a directory for their output (--retain-dir)")

// ownerOf returns the owner of the detached processes that a connection may see
// (docs/spec/wire.md §4.10): its principal. At a relay, the principal is the key of the client:
// a client must keep its key to see its processes again. A client on standard input and output
// is the user of this program.
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

// lastingOwner returns the principal of a connection if later connections of the same
// client have the same principal; otherwise an error with the reason.
func (c *conn) lastingOwner() (string, error) {
	switch {
	case c.t.Peer() == "stdio":
		return userPrincipal(os.Geteuid()), nil
	case c.principal == "" || c.principal == anybody:
		return "", errors.New("this server does not identify its clients")
	default:
		return c.principal, nil
	}
}

// isDetached reports whether a request is about a detached process. The form of the id shows
// it, unless the session itself has a process of that id.
func (c *conn) isDetached(id string) bool {
	return strings.HasPrefix(id, execproto.DetachedPrefix) && c.session.find(id) == nil
}

// startDetached makes a keeper start the process. In the keeper, the params go through all
// stages of a start.
func startDetached(st *start, params *execproto.StartParams) call {
	c, record := st.c, *st.detach
	return call{run: func(request context.Context) (reply.Result, error) {
		record.SetTrace(observe.TraceOf(request))
		seen := observe.Detached{Session: c.session.seen(), ID: st.id, Argv: params.Argv, Cwd: params.Cwd, Sandbox: params.Sandbox}
		if m := st.metadata; m != nil {
			seen.Thread, seen.ToolCall = shorten(m.ThreadID), shorten(m.ToolCallID)
		}
		if err := c.srv.events.DetachedStarting.Ask(seen); err != nil {
			return nil, err
		}
		// The start continues if the connection is lost. If the client then sends the start
		// again, it gets this process.
		started, err := c.srv.detached.Start(c.srv.ctx, record, params)
		if err != nil {
			return nil, err
		}
		return started, nil
	}}
}

// detachedCall returns a call about a detached process, which runs without a slot: it waits for
// the process's keeper. Calls with the same key run in the order of their requests; calls with
// the key "" have no order.
func (c *conn) detachedCall(id, key string, handle func(ctx context.Context, p *detach.Process) (reply.Result, error)) (call, error) {
	owner, err := c.ownerOf()
	if err != nil {
		return call{}, err
	}
	var t *turn
	if key != "" {
		t = c.session.sequence.enter(id + "/" + key)
	}
	return call{turn: t, waits: true, run: func(ctx context.Context) (reply.Result, error) {
		p, err := c.srv.detached.Find(owner, id)
		if err != nil {
			return nil, err
		}
		return handle(ctx, p)
	}}, nil
}

// The keys of the sequences of requests about a detached process. Input must arrive in order. A
// signal must not wait for input that a full pipe delays.
const (
	inputKey   = "input"
	controlKey = "control"
)

// forward returns a call that forwards a request to the keeper of a detached process.
// ended is the answer if the process has ended.
func forward[R any, O execproto.Pointer[R]](c *conn, id, key, method string, params execproto.Object, ended func() (reply.Result, error)) (call, error) {
	return c.detachedCall(id, key, func(ctx context.Context, p *detach.Process) (reply.Result, error) {
		if key == inputKey && p.CheckCeiling(c.grant.Ceiling) != nil {
			return nil, observe.Forbid(observe.ByCeiling, execproto.InvalidRequest("process "+shorten(id)+" was started with other ceilings than this token has; "+
				"use a token with the same ceilings as when it was started"))
		}
		if (key == inputKey || method == execproto.MethodProcessResize) && !p.MayWrite(c.session, key == inputKey) {
			return nil, execproto.InvalidRequest("another client writes to process " + shorten(id) + ", until its connection ends")
		}
		answer := O(new(R))
		err := p.Call(ctx, method, params, answer)
		switch {
		case errors.Is(err, detach.ErrEnded):
			return ended()
		case err != nil:
			return nil, err
		}
		text, err := execproto.Append(nil, answer)
		return reply.Encoded(text), err
	})
}

// Connected implements detach.Writer.
func (s *session) Connected() bool { return s.attached() != nil }

// writeDetached answers process/write about a detached process.
func writeDetached(c *conn, params *execproto.WriteParams) (call, error) {
	return forward[execproto.WriteResult](c, params.ProcessID, inputKey, execproto.MethodProcessWrite, params, func() (reply.Result, error) {
		return writeResult(params, process.WriteResult{Status: process.WriteStdinClosed})
	})
}

// closeStdinDetached answers process/closeStdin about a detached process.
func closeStdinDetached(c *conn, params *execproto.ProcessParams) (call, error) {
	return forward[execproto.Empty](c, params.ProcessID, inputKey, execproto.MethodProcessCloseStdin, params, isDone)
}

// resizeDetached answers process/resize about a detached process.
func resizeDetached(c *conn, params *execproto.ResizeParams) (call, error) {
	return forward[execproto.Empty](c, params.ProcessID, controlKey, execproto.MethodProcessResize, params, isDone)
}

// signalDetached answers process/signal about a detached process.
func signalDetached(c *conn, params *execproto.SignalParams) (call, error) {
	return forward[execproto.Empty](c, params.ProcessID, controlKey, execproto.MethodProcessSignal, params, isDone)
}

// terminateDetached answers process/terminate about a detached process.
func terminateDetached(c *conn, params *execproto.ProcessParams) (call, error) {
	return forward[execproto.TerminateResult](c, params.ProcessID, controlKey, execproto.MethodProcessTerminate, params, func() (reply.Result, error) {
		return execproto.TerminateResult{Running: false}, nil
	})
}

// isDone is the answer for a process that has ended.
func isDone() (reply.Result, error) { return reply.Done{}, nil }

// forwardRead answers process/read about a detached process. The keeper answers it; after the
// keeper has ended, the server reads from disk.
func forwardRead(c *conn, params *execproto.ReadParams) (call, error) {
	return c.detachedCall(params.ProcessID, "", func(ctx context.Context, p *detach.Process) (reply.Result, error) {
		r, err := p.Read(ctx, params)
		return r, err
	})
}

// listDetached answers process/listDetached with the owner's processes.
func listDetached(ctx context.Context, c *conn, params *execproto.ListParams) (reply.Result, error) {
	owner, err := c.ownerOf()
	if err != nil {
		return nil, err
	}
	list := execproto.DetachedResult{Processes: []execproto.DetachedProcess{}}
	for _, d := range c.srv.detached.All(owner) {
		p := d.Describe(ctx)
		if params.Usage && !p.Closed && p.Failure == "" {
			p.Usage = d.Usage(ctx)
		}
		list.Processes = append(list.Processes, p)
	}
	return list, nil
}

// forget answers process/forget: it removes the files of an ended process.
func forget(c *conn, params *execproto.ProcessParams) (call, error) {
	return c.detachedCall(params.ProcessID, controlKey, func(ctx context.Context, p *detach.Process) (reply.Result, error) {
		return reply.Done{}, p.Forget(ctx)
	})
}
