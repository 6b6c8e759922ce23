package execserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"strconv"
	"syscall"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/audit"
	"codex.internal/pkg/sandbox/egress"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/wire/logtext"
)

// Audit says what a server writes into an audit trail: sessions, processes, changes of
// files, and decisions about the network of processes.
type Audit struct {
	// Log is the trail. The caller closes it after Shutdown.
	Log *audit.Log
	// Commands adds the arguments and directories of commands, and Paths the paths of files and
	// of the Unix sockets of tunnels.
	// Both may have secrets.
	Commands, Paths bool
}

// record writes an event before what it is about. An error is the answer to the request:
// its work must not be done.
func (srv *Server) record(e audit.Event) error {
	if srv.opts.Audit == nil {
		return nil
	}
	if err := srv.opts.Audit.Log.Append(e); err != nil {
		return internal(err.Error() + "; no new work is accepted until it can be")
	}
	return nil
}

// note writes an event that has happened.
func (srv *Server) note(e audit.Event) {
	if srv.opts.Audit != nil {
		srv.opts.Audit.Log.Note(e)
	}
}

// event returns an event of a session.
func (s *session) event(kind string) audit.Event {
	return audit.Event{Kind: kind, Session: logtext.Digest(s.id), Principal: shorten(s.owner)}
}

// event returns an event of the process.
func (p *proc) event(kind string) audit.Event {
	e := p.s.event(kind)
	e.Process, e.Thread, e.ToolCall = shorten(p.id), p.thread, p.call
	return e
}

// policyDigest is the digest of the policy of a sandbox; empty: there is none.
func policyDigest(intent *runner.Intent) string {
	if intent == nil {
		return ""
	}
	sum := sha256.Sum256(intent.Profile.AppendJSON(nil))
	return hex.EncodeToString(sum[:])
}

// recordSession writes that a connection is about to get a new session.
func (srv *Server) recordSession(c *conn, id string) error {
	if srv.opts.Audit == nil {
		return nil
	}
	return srv.record(audit.Event{
		Kind: audit.EventSessionStarted, Session: logtext.Digest(id), Principal: shorten(c.principal), Client: c.client, Peer: c.t.Peer(),
	})
}

// recordDetached writes that a detached process is about to be started. See noteEnd for its
// end.
func (c *conn) recordDetached(p *execproto.StartParams, cwd string) error {
	a := c.srv.opts.Audit
	if a == nil {
		return nil
	}
	e := c.session.event(audit.EventDetachedStarted)
	e.Process = shorten(p.ProcessID)
	if m := p.Metadata; m != nil {
		e.Thread, e.ToolCall = shorten(m.ThreadID), shorten(m.ToolCallID)
	}
	if p.Sandbox != nil {
		sum := sha256.Sum256(p.Sandbox)
		e.Policy = hex.EncodeToString(sum[:])
	}
	if a.Commands {
		e.Argv, e.Cwd = p.Argv, cwd
	}
	return c.srv.record(e)
}

// recordTunnel writes that a tunnel is about to be opened, or a port to be listened on.
func (c *conn) recordTunnel(kind string, to tunnelTarget) error {
	a := c.srv.opts.Audit
	if a == nil {
		return nil
	}
	e := c.session.event(kind)
	e.Host, e.Port, e.Process = shorten(cmp.Or(to.host, "unix")), to.port, shorten(to.processID())
	if a.Paths && to.path != "" {
		e.Paths = []string{to.path}
	}
	return c.srv.record(e)
}

// recordHTTP writes that a request of the client is about to be made, without its path. A
// server that it redirects to is not in the trail.
func (c *conn) recordHTTP(method, address string) error {
	if c.srv.opts.Audit == nil {
		return nil
	}
	e := c.session.event(audit.EventHTTPRequest)
	e.Method = knownMethod(method)
	if target, err := url.Parse(address); err == nil {
		e.Protocol, e.Host = shorten(target.Scheme), shorten(target.Hostname())
		if port, err := strconv.ParseUint(target.Port(), 10, 16); err == nil {
			e.Port = uint16(port)
		}
	}
	return c.srv.record(e)
}

// recordStart writes that the process is about to be started.
func (st *start) recordStart(intent *runner.Intent) error {
	a := st.p.s.srv.opts.Audit
	if a == nil {
		return nil
	}
	e := st.p.event(audit.EventProcessStarted)
	e.Sandbox, e.Policy = sandboxNone, policyDigest(intent)
	if intent != nil {
		e.Sandbox = sandboxLinux
	}
	if a.Commands {
		e.Argv, e.Cwd = st.spec.Argv, st.spec.Dir
	}
	err := st.p.s.srv.record(e)
	st.recorded = err == nil
	return err
}

// noteNotStarted writes that the process did not start. It does nothing if it was not
// written that it was about to.
func (st *start) noteNotStarted(err error) {
	if st.recorded {
		e := st.p.event(audit.EventProcessNotRun)
		e.Reason = st.p.s.srv.reasonOf(err)
		st.p.s.srv.note(e)
	}
}

// reasonOf returns why a process did not start. With Commands that is the whole error. Without, it is
// only the error of the system, if there is one: the whole error may name the program or directory.
func (srv *Server) reasonOf(err error) string {
	a := srv.opts.Audit
	if a == nil || a.Commands {
		return shorten(err.Error())
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number.Error()
	}
	return ""
}

// noteEnded writes how the process has ended.
func (p *proc) noteEnded() {
	if p.s.srv.opts.Audit == nil {
		return
	}
	e := p.event(audit.EventProcessEnded)
	e.ExitCode, e.DurationMS = &p.exit.code, p.exit.duration.Milliseconds()
	e.BytesIn, e.BytesOut = p.traffic.in.Load(), p.traffic.out.Load()
	if n := p.decisions.Load(); n > maxAuditedDecisions {
		e.Omitted = n - maxAuditedDecisions
	}
	p.s.srv.note(e)
}

// noteDecision writes what was decided about a connection of the process. A process that
// tries in a loop must not fill the disk: its later decisions are counted only.
func (p *proc) noteDecision(r egress.Report) {
	if p.s.srv.opts.Audit == nil || p.decisions.Add(1) > maxAuditedDecisions {
		return
	}
	kind := audit.EventNetworkDecision
	if r.Source == egress.Decider {
		kind = audit.EventNetworkApproval
	}
	e := p.event(kind)
	e.Protocol, e.Host, e.Port, e.Method = string(r.Protocol), shorten(r.Host), r.Port, shorten(r.Method)
	e.Decision, e.Source, e.Reason = string(r.Verdict), string(r.Source), shorten(r.Reason)
	p.s.srv.note(e)
}

// change is a change of files that is about to be made.
type change struct {
	c     *conn
	event audit.Event
}

// recordChange writes that a request is about to change files. Its outcome must be given to
// done.
func (c *conn) recordChange(ctx context.Context, method string, worker fileWorker, paths ...string) (change, error) {
	a := c.srv.opts.Audit
	if a == nil {
		return change{}, nil
	}
	e := c.session.event(audit.EventFileChanged)
	e.Method = method
	if w, ok := worker.(confinedFiles); ok {
		intent, err := w.intent.confined(ctx)
		if err != nil {
			return change{}, err
		}
		e.Policy = policyDigest(intent)
	}
	if a.Paths {
		e.Paths = paths
	}
	return change{c, e}, c.srv.record(e)
}

// done writes that the change has failed, if it has.
func (ch change) done(err error) {
	if ch.c == nil || err == nil {
		return
	}
	e := ch.event
	e.Kind = audit.EventFileNotChanged
	if ch.c.srv.opts.Audit.Paths {
		e.Reason = shorten(err.Error()) // it may have a path
	}
	ch.c.srv.note(e)
}
