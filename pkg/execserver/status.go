//go:build linux || darwin

package execserver

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/internal/webpage"
	"codex.internal/pkg/wire/clip"
	"codex.internal/pkg/wire/sessionid"
)

const (
	// statusPath is where the status page is.
	statusPath = "/status"
	// maxStatusProcesses bounds the processes of a session on the status page, and maxStatusCommand
	// the bytes of a command.
	maxStatusProcesses = 200
	maxStatusCommand   = 300
)

// statusReport is what the status page shows: what belongs to one principal.
type statusReport struct {
	Version string    `json:"version"`
	Host    string    `json:"host"`
	Since   time.Time `json:"since"`
	// Sandbox is the backend, once a client has come; empty before.
	Sandbox  string          `json:"sandbox,omitempty"`
	Sessions []sessionStatus `json:"sessions"`
}

// sessionStatus is a session on the status page.
type sessionStatus struct {
	Session   string          `json:"session"` // the digest that the log has too
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
}

// statusOf returns what a principal may see.
func (srv *Server) statusOf(principal string) statusReport {
	report := statusReport{Version: srv.opts.Version, Host: srv.hostName, Since: srv.began, Sessions: []sessionStatus{}}
	if backend := srv.confiner.known.Load(); backend != nil {
		report.Sandbox = *backend
	}
	for _, s := range srv.sessionsOf(principal, false) {
		report.Sessions = append(report.Sessions, s.status())
	}
	return report
}

func (s *session) status() sessionStatus {
	s.mu.Lock()
	st := sessionStatus{
		Session: sessionid.Digest(s.id), Client: s.client, Peer: s.peer, Attached: s.conn != nil, Since: s.began,
		Processes: []processStatus{},
	}
	s.mu.Unlock()
	s.tunnels.mu.Lock()
	st.Tunnels = s.tunnels.slots
	s.tunnels.mu.Unlock()
	procs := s.all()
	slices.SortFunc(procs, func(a, b *proc) int { return b.startedAt.Compare(a.startedAt) })
	if len(procs) > maxStatusProcesses {
		st.Omitted = len(procs) - maxStatusProcesses
		procs = procs[:maxStatusProcesses]
	}
	for _, p := range procs {
		st.Processes = append(st.Processes, p.status())
	}
	return st
}

func (p *proc) status() processStatus {
	st := processStatus{
		ID: shorten(p.id), Command: clip.Text(strings.Join(p.argv, " "), maxStatusCommand), State: "starting", Since: p.startedAt,
		BytesIn: p.traffic.in.Load(), BytesOut: p.traffic.out.Load(),
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
	st.ExitCode = state.ExitCode
	if e := state.Exit; e != nil {
		st.Cause = causes[e.Cause]
	}
	return st
}

// serveStatus shows a principal its sessions and processes (docs/spec/wire.md §1.2), as a page or,
// if asked for, as JSON. A browser sends a token as the password.
func (srv *Server) serveStatus(w http.ResponseWriter, r *http.Request) {
	switch {
	case srv.keeper != nil:
		w.WriteHeader(http.StatusNotFound)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
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
	report := srv.statusOf(grant.Principal)
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
