package execserver

import (
	"context"
	"slices"
	"time"

	"codex.internal/pkg/execserver/detach"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/statuspage"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/wire/digest"
)

// statusTime bounds the requests to the keepers of detached processes for one status page.
const statusTime = 5 * time.Second

// statusSource makes a server the Source of its status page.
type statusSource struct{ *Server }

// Report implements statuspage.Source. A client sees the sessions and processes of its
// principal. With the role admin, it sees all.
func (srv statusSource) Report(ctx context.Context, grant *wsauth.Grant) statuspage.Report {
	all, ends := grant.Role.Allows(wsauth.RoleAdmin), statuspage.MayEnd(grant)
	report := statuspage.Report{Version: srv.opts.Version, Host: srv.hostName, Since: srv.began, Sessions: []statuspage.Session{}}
	report.Sandbox = srv.confiner.KnownBackend()
	for _, s := range srv.sessionsOf(grant.Principal, all) {
		st := s.status(ends)
		if all {
			st.Owner = shorten(s.principal())
		}
		report.Sessions = append(report.Sessions, st)
	}
	detached := srv.detachedOf(grant.Principal, all)
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	for _, k := range detached[:min(len(detached), statuspage.MaxProcesses)] {
		st := detachedStatus(ctx, k)
		if all {
			st.Owner = shorten(k.Record.Called())
		}
		if ends && st.State == "running" {
			st.Key = detachedKey(k)
		}
		report.Detached = append(report.Detached, st)
	}
	return report
}

// Targets implements statuspage.Source.
func (srv statusSource) Targets(grant *wsauth.Grant) (targets []statuspage.Target) {
	all := grant.Role.Allows(wsauth.RoleAdmin)
	for _, s := range srv.sessionsOf(grant.Principal, all) {
		for _, p := range s.all() {
			seen := observe.EndRequest{Session: p.seen.Session.ID, Owner: s.principal(), Process: p.id, Thread: p.seen.Thread, ToolCall: p.seen.ToolCall}
			targets = append(targets, statuspage.Target{
				Key: p.key(), Name: shorten(p.id), Command: statuspage.CommandLine(p.argv), Seen: seen, End: p.terminate,
			})
		}
	}
	for _, k := range srv.detachedOf(grant.Principal, all) {
		targets = append(targets, statuspage.Target{
			Key: detachedKey(k), Name: shorten(k.Record.ProcessID), Command: statuspage.CommandLine(k.Record.Argv),
			Seen: observe.EndRequest{Process: k.Record.ProcessID}, End: k.Terminate,
		})
	}
	return targets
}

// detachedOf returns the detached processes of a principal, or of all principals.
func (srv *Server) detachedOf(principal string, all bool) []*detach.Process {
	if srv.detached == nil || principal == "" || principal == anybody && !all {
		return nil
	}
	if all {
		principal = ""
	}
	return srv.detached.All(principal)
}

func (p *proc) key() statuspage.Key {
	return statuspage.Key{"session", p.s.id, p.id, p.startedAt.String()}
}

func detachedKey(k *detach.Process) statuspage.Key {
	return statuspage.Key{"detached", k.Record.Owner, k.Record.ProcessID, k.Record.StartID}
}

// status describes the session. ends means that the client may end its processes.
func (s *session) status(ends bool) statuspage.Session {
	s.mu.Lock()
	st := statuspage.Session{
		Session: digest.Of(s.id), Client: s.client, Peer: s.peer, Attached: s.conn != nil, Since: s.began,
		Processes: []statuspage.Process{},
	}
	s.mu.Unlock()
	st.Tunnels, st.Requests = s.tunnels.Count(), s.requests.Load()
	procs := s.all()
	slices.SortFunc(procs, func(a, b *proc) int { return b.startedAt.Compare(a.startedAt) })
	if len(procs) > statuspage.MaxProcesses {
		st.Omitted = len(procs) - statuspage.MaxProcesses
		procs = procs[:statuspage.MaxProcesses]
	}
	for _, p := range procs {
		ps := p.status()
		if ends && ps.State != "closed" {
			ps.Key = p.key()
		}
		st.Processes = append(st.Processes, ps)
	}
	return st
}

func (p *proc) status() statuspage.Process {
	st := statuspage.Process{
		ID: shorten(p.id), Command: statuspage.CommandLine(p.argv), State: "starting", Since: p.startedAt,
		BytesIn: p.seen.In.Load(), BytesOut: p.seen.Out.Load(),
	}
	running := p.now()
	if running == nil {
		return st
	}
	st.Sandboxed = p.confined
	state := running.State()
	switch {
	case state.Closed:
		st.State = "closed"
	case state.Exited:
		st.State = "exited"
	default:
		st.State = "running"
	}
	st.Usage = (*statuspage.Usage)(usageOf(running))
	st.ExitCode = state.ExitCode
	if e := state.Exit; e != nil {
		st.Cause = causes[e.Cause]
	}
	return st
}

// detachedStatus describes a detached process.
func detachedStatus(ctx context.Context, k *detach.Process) statuspage.Detached {
	d := k.Describe(ctx)
	st := statuspage.Detached{
		ID: shorten(d.ProcessID), Command: statuspage.CommandLine(d.Argv), State: "running", Since: time.UnixMilli(d.StartedAtMS),
		ExitCode: d.ExitCode, Retained: d.Retained,
	}
	switch {
	case d.Closed:
		st.State = "closed"
	case d.Exited:
		st.State = "exited"
	case d.Failure != "":
		st.State = "unknown"
	default:
		st.Usage = (*statuspage.Usage)(k.Usage(ctx))
	}
	return st
}

// terminate ends the process for the status page.
func (p *proc) terminate(context.Context) error {
	p.terminateNow()
	return nil
}

// terminateNow ends the process and reports whether it was running. If the process is starting, it cancels the start.
func (p *proc) terminateNow() bool {
	if p.cancelStart() {
		return true
	}
	running := p.now()
	if running == nil {
		return false
	}
	p.stopAsking()
	return running.Terminate()
}
