package execserver

import (
	"context"
	"slices"
	"strings"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/execserver/statuspage"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/wire/digest"
	"codex.internal/pkg/wire/logtext"
)

// processList lists processes in the order of their starts (docs/spec/wire.md §4.7, §4.12).
// With usage it reads files of /proc, and then does not run on the connection's reader.
func processList(c *conn, params *execproto.ListParams) (call, error) {
	if params.Scope == execproto.ListServer {
		if err := c.needs(wsauth.RoleAdmin, execproto.MethodProcessList+" with the scope server"); err != nil {
			return call{}, err
		}
	}
	wanted := *params
	return call{waits: wanted.Usage, run: func(context.Context) (reply.Result, error) { return c.list(&wanted), nil }}, nil
}

// list returns the processes that params ask for.
func (c *conn) list(params *execproto.ListParams) execproto.ListResult {
	if params.Scope == "" || params.Scope == execproto.ListSession {
		return execproto.ListResult{Processes: infos(c.session.all(), params.Usage)}
	}
	var list execproto.ListResult
	var procs []*proc
	names := make(map[*proc]sessionName)
	for _, s := range c.srv.sessionsOf(c.principal, params.Scope == execproto.ListServer) {
		s.mu.Lock()
		name := sessionName{digest.Of(s.id), s.client, s.principal()}
		s.mu.Unlock()
		for _, p := range s.all() {
			procs = append(procs, p)
			names[p] = name
		}
	}
	slices.SortFunc(procs, byStart)
	if n := len(procs) - maxListed; n > 0 {
		list.Omitted, procs = uint64(n), procs[n:]
	}
	list.Processes = infos(procs, params.Usage)
	for i, p := range procs {
		info := &list.Processes[i]
		info.Session, info.Client, info.Principal = names[p].session, names[p].client, shorten(names[p].principal)
		// A client must not be able to make the answers to other clients large.
		info.Argv = boundedArgv(p.arguments())
	}
	return list
}

// processOf returns a process of a session that list names. It must be a session of the client's principal, unless
// the client has the role admin.
func (c *conn) processOf(session, id string) (*proc, error) {
	for _, s := range c.srv.sessionsOf(c.principal, c.grant.Role.Allows(wsauth.RoleAdmin)) {
		s.mu.Lock()
		same := digest.Of(s.id) == session
		s.mu.Unlock()
		if !same {
			continue
		}
		if p := s.find(id); p != nil {
			return p, nil
		}
	}
	return nil, execproto.InvalidRequest("unknown process id " + shorten(id) + " of the session " + shorten(session))
}

// boundedArgv returns the beginning of a command line of limited length, argument by argument.
func boundedArgv(argv []string) []string {
	var list []string
	left := statuspage.MaxCommand
	for _, arg := range argv {
		if left <= 0 {
			return append(list, "…")
		}
		short := logtext.Clip(arg, left)
		list = append(list, short)
		left -= len(short) + 1
	}
	return list
}

// sessionName is the name of a session in a list.
type sessionName struct{ session, client, principal string }

// sessionsOf returns the sessions of a principal, or all sessions, the oldest first.
func (srv *Server) sessionsOf(principal string, all bool) []*session {
	srv.mu.Lock()
	var sessions []*session
	for _, s := range srv.sessions {
		if all || s.owner == principal {
			sessions = append(sessions, s)
		}
	}
	srv.mu.Unlock()
	slices.SortFunc(sessions, func(a, b *session) int { return a.began.Compare(b.began) })
	return sessions
}

// byStart orders processes by their starts.
func byStart(a, b *proc) int {
	if d := a.startedAt.Compare(b.startedAt); d != 0 {
		return d
	}
	return strings.Compare(a.id, b.id)
}

// infos sorts processes by their starts and returns their descriptions.
func infos(procs []*proc, usage bool) []execproto.ProcessInfo {
	slices.SortFunc(procs, byStart)
	list := make([]execproto.ProcessInfo, 0, len(procs))
	for _, p := range procs {
		info := execproto.ProcessInfo{ProcessID: p.id, Argv: p.arguments(), StartedAtMS: p.startedAt.UnixMilli(), TTY: p.tty}
		if running := p.now(); running != nil {
			state := running.State()
			info.Exited, info.ExitCode, info.Closed = state.Exited, state.ExitCode, state.Closed
			if e := state.Exit; e != nil {
				info.Cause, info.Resources = causes[e.Cause], resources(&e.Usage)
			}
			if usage {
				info.Usage = usageOf(running)
			}
		}
		list = append(list, info)
	}
	return list
}

// usageOf returns the current usage of a process; nil: unknown, or the process has closed.
func usageOf(running *process.Process) *execproto.ProcessUsage {
	u, ok := running.Current()
	if !ok {
		return nil
	}
	return &execproto.ProcessUsage{
		UserMS: uint64(u.User.Milliseconds()), SystemMS: uint64(u.System.Milliseconds()), MemoryBytes: u.Memory, Processes: u.Processes,
	}
}
