package observe

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"strconv"
	"syscall"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/audit"
)

// maxAuditedDecisions bounds the decisions about the network of one process in the audit trail,
// so that a process that tries hosts in a loop cannot fill the disk. Further decisions are only
// counted.
const maxAuditedDecisions = 1024

// Audit writes a server's events into an audit trail: sessions, processes, changes of
// files, and decisions about the network of processes.
type Audit struct {
	// Log is the trail. The caller closes it after Shutdown.
	Log *audit.Log
	// Commands adds the arguments and directories of commands. Paths adds the paths of files,
	// and of the Unix sockets of tunnels. Both may contain secrets.
	Commands, Paths bool
}

func (a *Audit) observe(ev *Events) {
	ev.ConnectionRefused.Add(func(r Refused) {
		a.Log.NoteRefusal(audit.Event{Kind: audit.EventClientRefused, Principal: Short(r.Principal), Peer: r.Peer, Reason: Short(r.Err.Error())})
	})
	ev.RequestRefused.Add(a.requestRefused)
	ev.SessionStarting.Add(func(s Session) error {
		e := s.event(audit.EventSessionStarted)
		e.Client, e.Peer = s.Client, s.Peer
		return a.record(e)
	})
	ev.SessionResumed.Add(func(s Session) {
		e := s.event(audit.EventSessionResumed)
		e.Client, e.Peer = s.Client, s.Peer
		a.Log.Note(e)
	})
	ev.SessionEnded.Add(func(end SessionEnd) {
		e := end.Session.event(audit.EventSessionEnded)
		e.Reason = end.Reason
		a.Log.Note(e)
	})
	ev.ProcessStarting.Add(a.processStarting)
	ev.ProcessStartFailed.Add(a.processStartFailed)
	ev.ProcessExited.Add(a.processExited)
	ev.ProcessClosed.Add(a.processClosed)
	ev.ProcessEndAsked.Add(func(r EndRequest) error {
		return a.record(audit.Event{
			Kind: audit.EventProcessEndAsked, Session: r.Session, Owner: Short(r.Owner), Principal: Short(r.Principal), Peer: r.Peer,
			Process: Short(r.Process), Thread: r.Thread, ToolCall: r.ToolCall,
		})
	})
	ev.NetworkDecided.Add(a.networkDecided)
	ev.DetachedStarting.Add(a.detachedStarting)
	ev.DetachedStartFailed.Add(func(d Detached) {
		e := d.event(audit.EventProcessNotRun)
		e.Reason = a.reasonOf(d.Err)
		a.Log.Note(e)
	})
	ev.DetachedEnded.Add(a.detachedEnded)
	ev.FileStarting.Add(a.fileStarting)
	ev.FileDone.Add(a.fileDone)
	ev.HTTPStarting.Add(a.httpStarting)
	ev.TunnelOpening.Add(func(t Tunnel) error { return a.tunnel(audit.EventTunnelOpened, t) })
	ev.TunnelListening.Add(func(t Tunnel) error { return a.tunnel(audit.EventTunnelListen, t) })
}

// requestRefused omits the reason unless the trail has paths: a ceiling names a directory.
func (a *Audit) requestRefused(r Forbidden) {
	e := r.Session.event(audit.EventRequestRefused)
	e.Peer, e.Method, e.Source = r.Session.Peer, r.Method, string(r.By)
	if a.Paths {
		e.Reason = Short(r.Error())
	}
	a.Log.NoteRefusal(e)
}

// record writes an event. The caller carries out the operation afterwards.
func (a *Audit) record(e audit.Event) error {
	if err := a.Log.Append(e); err != nil {
		return execproto.Internal(err.Error() + "; the server accepts no new work until its operator has mended that")
	}
	return nil
}

func (s *Session) event(kind string) audit.Event {
	return audit.Event{Kind: kind, Session: s.ID, Principal: Short(s.Principal)}
}

func (p *Process) event(kind string) audit.Event {
	e := p.Session.event(kind)
	e.Process, e.Thread, e.ToolCall = Short(p.ID), p.Thread, p.ToolCall
	return e
}

func (d *Detached) event(kind string) audit.Event {
	e := d.Session.event(kind)
	e.Process, e.Thread, e.ToolCall = Short(d.ID), d.Thread, d.ToolCall
	return e
}

// digest returns the digest of a policy; empty: there is no policy.
func digest(policy Policy) string {
	if policy == nil {
		return ""
	}
	return digestOf(policy.AppendJSON(nil))
}

func digestOf(json []byte) string {
	sum := sha256.Sum256(json)
	return hex.EncodeToString(sum[:])
}

func (a *Audit) processStarting(p *Process) error {
	e := p.event(audit.EventProcessStarted)
	e.Sandbox, e.Policy = p.Sandbox, digest(p.Policy)
	if a.Commands {
		e.Argv, e.Cwd = p.Argv, p.Dir
	}
	err := a.record(e)
	p.recorded = err == nil
	return err
}

// processStartFailed does nothing if the trail does not have the start of the process.
func (a *Audit) processStartFailed(f StartFailure) {
	if f.recorded {
		e := f.event(audit.EventProcessNotRun)
		e.Reason = a.reasonOf(f.Err)
		a.Log.Note(e)
	}
}

// reasonOf returns why a process did not start. With Commands it is the complete error. Without, it
// is only the system's error, if there is one, because the complete error may name the program or
// directory.
func (a *Audit) reasonOf(err error) string {
	if a.Commands {
		return Short(err.Error())
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number.Error()
	}
	return ""
}

func (a *Audit) processExited(p *Process) {
	if p.Exit.Refusal == nil {
		return
	}
	e := p.event(audit.EventSandboxRefused)
	if a.Paths {
		e.Reason = Short(p.Exit.Refusal.Reason) // the reason may contain a path
	}
	a.Log.Note(e)
}

func (a *Audit) processClosed(p *Process) {
	e := p.event(audit.EventProcessEnded)
	e.Cause, e.ExitCode, e.DurationMS = string(p.Exit.Cause), &p.Exit.Code, p.Exit.Duration.Milliseconds()
	e.BytesIn, e.BytesOut = p.In.Load(), p.Out.Load()
	if n := p.decisions.Load(); n > maxAuditedDecisions {
		e.Omitted = n - maxAuditedDecisions
	}
	a.Log.Note(e)
}

func (a *Audit) networkDecided(d Decision) {
	if d.decisions.Add(1) > maxAuditedDecisions {
		return
	}
	kind := audit.EventNetworkDecision
	if d.Asked {
		kind = audit.EventNetworkApproval
	}
	e := d.event(kind)
	e.Protocol, e.Host, e.Port, e.Method = d.Protocol, Short(d.Host), d.Port, Short(d.Method)
	e.Decision, e.Source, e.Reason = d.Verdict, d.Source, Short(d.Reason)
	a.Log.Note(e)
}

func (a *Audit) detachedStarting(d Detached) error {
	e := d.event(audit.EventDetachedStarted)
	if d.Sandbox != nil {
		e.Policy = digestOf(d.Sandbox)
	}
	if a.Commands {
		e.Argv, e.Cwd = d.Argv, d.Cwd
	}
	return a.record(e)
}

func (a *Audit) detachedEnded(d Detached) {
	e := d.event(audit.EventProcessEnded)
	e.Cause, e.ExitCode, e.DurationMS, e.Reason = d.Cause, &d.ExitCode, d.LastedMS, d.Lost
	e.BytesIn, e.BytesOut = d.In, d.Out
	if a.Paths && d.Lost == "" {
		e.Reason = Short(d.Refusal) // the reason may contain a path
	}
	a.Log.Note(e)
}

func (a *Audit) fileStarting(f *File) error {
	if !f.Changes {
		return nil
	}
	err := a.record(a.fileEvent(f, audit.EventFileChanged))
	f.recorded = err == nil
	return err
}

func (a *Audit) fileDone(f *File) {
	if !f.recorded || f.Err == nil {
		return
	}
	e := a.fileEvent(f, audit.EventFileNotChanged)
	if a.Paths {
		e.Reason = Short(f.Err.Error()) // the error may contain a path
	}
	a.Log.Note(e)
}

func (a *Audit) fileEvent(f *File, kind string) audit.Event {
	e := f.Session.event(kind)
	e.Method, e.Policy = f.Method, digest(f.Policy)
	if a.Paths {
		e.Paths = f.Paths
	}
	return e
}

// httpStarting omits the path. If a response redirects the request, the trail does not have the
// second server.
func (a *Audit) httpStarting(h *HTTP) error {
	e := h.Session.event(audit.EventHTTPRequest)
	e.Method = knownMethod(h.Method)
	if target, err := url.Parse(h.URL); err == nil {
		e.Protocol, e.Host = Short(target.Scheme), Short(target.Hostname())
		if port, err := strconv.ParseUint(target.Port(), 10, 16); err == nil {
			e.Port = uint16(port)
		}
	}
	return a.record(e)
}

func (a *Audit) tunnel(kind string, t Tunnel) error {
	e := t.Session.event(kind)
	e.Host, e.Port, e.Process = Short(cmp.Or(t.Host, "unix")), t.Port, Short(t.Process)
	if a.Paths && t.Path != "" {
		e.Paths = []string{t.Path}
	}
	return a.record(e)
}
