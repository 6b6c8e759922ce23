package execserver

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/internal/webpage"
	"codex.internal/pkg/wire/logtext"
)

const (
	// statusPath is where the status page is.
	statusPath = "/status"
	// maxStatusProcesses bounds the processes of a session on the status page, and maxStatusCommand
	// the bytes of a command.
	maxStatusProcesses = 200
	maxStatusCommand   = 300
	// statusTime bounds the questions to the keepers of detached processes for a page.
	statusTime = 5 * time.Second
)

// statusReport is what the status page shows: what belongs to one principal.
type statusReport struct {
	Version string    `json:"version"`
	Host    string    `json:"host"`
	Since   time.Time `json:"since"`
	// Sandbox is the backend, once a client has come; empty before.
	Sandbox  string           `json:"sandbox,omitempty"`
	Sessions []sessionStatus  `json:"sessions"`
	Detached []detachedStatus `json:"detached,omitempty"`
}

// sessionStatus is a session on the status page.
type sessionStatus struct {
	Session   string          `json:"session"`         // the digest that the log has too
	Owner     string          `json:"owner,omitempty"` // if it may be that of another principal
	Client    string          `json:"client"`
	Peer      string          `json:"peer"`
	Attached  bool            `json:"attached"`
	Since     time.Time       `json:"since"`
	Tunnels   int             `json:"tunnels"`
	Processes []processStatus `json:"processes"`
	// Omitted is how many more processes there are.
	Omitted int `json:"omitted,omitempty"`
}

// processStatus is a process on the status page.
type processStatus struct {
	ID        string          `json:"processId"`
	Command   string          `json:"command"`
	State     string          `json:"state"` // starting, running, exited, closed
	Since     time.Time       `json:"since"`
	Sandboxed bool            `json:"sandboxed"`
	BytesIn   int64           `json:"bytesIn"`
	BytesOut  int64           `json:"bytesOut"`
	ExitCode  *int            `json:"exitCode,omitempty"`
	Cause     execproto.Cause `json:"cause,omitempty"`
	Usage     *usageStatus    `json:"usage,omitempty"`
	// ref names the process in the form that ends it; "": the client may not.
	ref string
}

// usageStatus is execproto.ProcessUsage on the status page.
type usageStatus struct {
	UserMS      uint64 `json:"userMs"`
	SystemMS    uint64 `json:"systemMs"`
	MemoryBytes uint64 `json:"memoryBytes"`
	Processes   uint64 `json:"processes"`
}

// detachedStatus is a detached process on the status page.
type detachedStatus struct {
	Owner    string       `json:"owner,omitempty"`
	ID       string       `json:"processId"`
	Command  string       `json:"command"`
	State    string       `json:"state"` // running, exited, closed, unknown
	Since    time.Time    `json:"since"`
	ExitCode *int         `json:"exitCode,omitempty"`
	Retained uint64       `json:"retained"`
	Usage    *usageStatus `json:"usage,omitempty"`
	ref      string
}

// commandOf returns a command line as the status page shows it.
func commandOf(argv []string) string { return logtext.Clip(strings.Join(argv, " "), maxStatusCommand) }

// statusOf returns what a client may see: what its principal has and, with the role admin,
// what all have.
func (srv *Server) statusOf(ctx context.Context, grant *wsauth.Grant) statusReport {
	all := grant.Role.Allows(wsauth.RoleAdmin)
	report := statusReport{Version: srv.opts.Version, Host: srv.hostName, Since: srv.began, Sessions: []sessionStatus{}}
	if backend := srv.confiner.known.Load(); backend != nil {
		report.Sandbox = *backend
	}
	for _, s := range srv.sessionsOf(grant.Principal, all) {
		st := s.status(mayEnd(grant))
		if all {
			st.Owner = shorten(s.owner)
		}
		report.Sessions = append(report.Sessions, st)
	}
	kept := srv.keptOf(grant.Principal, all)
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	for _, k := range kept[:min(len(kept), maxStatusProcesses)] {
		st := k.status(ctx)
		if all {
			st.Owner = shorten(k.record.Owner)
		}
		if mayEnd(grant) && st.State == "running" {
			st.ref = srv.refOfKept(k)
		}
		report.Detached = append(report.Detached, st)
	}
	return report
}

// status describes a detached process.
func (k *kept) status(ctx context.Context) detachedStatus {
	d := k.describe(ctx)
	st := detachedStatus{
		ID: shorten(d.ProcessID), Command: commandOf(d.Argv), State: "running", Since: time.UnixMilli(d.StartedAtMS), ExitCode: d.ExitCode, Retained: d.Retained,
	}
	switch {
	case d.Closed:
		st.State = "closed"
	case d.Exited:
		st.State = "exited"
	case d.Failure != "":
		st.State = "unknown"
	default:
		st.Usage = (*usageStatus)(k.usage(ctx))
	}
	return st
}

// status describes the session. With ends, its processes have what names them in a form.
func (s *session) status(ends bool) sessionStatus {
	s.mu.Lock()
	st := sessionStatus{
		Session: logtext.Digest(s.id), Client: s.client, Peer: s.peer, Attached: s.conn != nil, Since: s.began,
		Processes: []processStatus{},
	}
	s.mu.Unlock()
	st.Tunnels = s.tunnels.Count()
	procs := s.all()
	slices.SortFunc(procs, func(a, b *proc) int { return b.startedAt.Compare(a.startedAt) })
	if len(procs) > maxStatusProcesses {
		st.Omitted = len(procs) - maxStatusProcesses
		procs = procs[:maxStatusProcesses]
	}
	for _, p := range procs {
		ps := p.status()
		if ends && ps.State != "closed" {
			ps.ref = s.srv.refOf(p)
		}
		st.Processes = append(st.Processes, ps)
	}
	return st
}

func (p *proc) status() processStatus {
	st := processStatus{
		ID: shorten(p.id), Command: commandOf(p.argv), State: "starting", Since: p.startedAt,
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
	st.Usage = (*usageStatus)(usageOf(running))
	st.ExitCode = state.ExitCode
	if e := state.Exit; e != nil {
		st.Cause = causes[e.Cause]
	}
	return st
}

// serveStatus shows a client sessions and processes (docs/spec/wire.md §1.2), as a page or,
// if asked for, as JSON, and ends processes. A browser sends a token as the password.
func (srv *Server) serveStatus(w http.ResponseWriter, r *http.Request) {
	switch {
	case srv.keeper != nil:
		w.WriteHeader(http.StatusNotFound)
		return
	case r.Method == http.MethodPost && !isOwnOrigin(r):
		http.Error(w, "a POST must come from the form of this page", http.StatusForbidden)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost:
		w.Header().Set("Allow", "GET, HEAD, POST")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case srv.opts.Auth == nil && !isLiteralHost(r.Host):
		http.Error(w, "use an IP address or localhost in the URL: a web page could have made another name", http.StatusForbidden)
		return
	}
	if _, password, ok := r.BasicAuth(); ok {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+password)
	}
	grant, refused := srv.authenticate(r)
	if refused != nil {
		if refused.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Basic realm="codex exec-server: any user, a token as password"`)
		}
		srv.refuse(w, r, refused)
		return
	}
	if r.Method == http.MethodPost {
		srv.serveEnd(w, r, &grant)
		return
	}
	if ref := r.URL.Query().Get(endField); ref != "" {
		srv.serveConfirmation(w, &grant, ref)
		return
	}
	report := srv.statusOf(r.Context(), &grant)
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(report.json()) // a client that is gone needs no answer
		return
	}
	webpage.SetHeaders(w.Header(), statusPolicy)
	_, _ = w.Write(statusPage(&report, time.Now()))
}

// isLiteralHost reports whether a host is an address or localhost. A web page that has its own
// name resolve to this machine could otherwise read the page with the rights of the browser's user.
func isLiteralHost(host string) bool {
	if name, _, ok := strings.Cut(host, ":"); ok && name == "localhost" || host == "localhost" {
		return true
	}
	if _, err := netip.ParseAddrPort(host); err == nil {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}
