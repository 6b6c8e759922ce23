package rendezvous

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"codex.internal/pkg/internal/webpage"
)

// totals are what there is at a time. Sockets and streams are those of this
// process.
type totals struct{ environments, executors, harnesses, streams int }

func (s *Server) totals() totals {
	var t totals
	for _, reg := range s.state.List() {
		t.environments++
		if a := s.environments.find(reg.Environment); a != nil {
			a.mu.Lock()
			t.harnesses += a.sockets
			t.streams += a.streams
			t.executors += min(a.holders, 1)
			a.mu.Unlock()
		}
	}
	return t
}

// environmentStatus is an environment on the status page. Up is from harnesses
// to the executor.
type environmentStatus struct {
	ID           string `json:"id"`
	Registration string `json:"executor_registration_id"`
	Connected    bool   `json:"connected"`
	Harnesses    int    `json:"harnesses"`
	Streams      int    `json:"streams"`
	Up           flow   `json:"up"`
	Down         flow   `json:"down"`
	// Address is where the executor's newest connection to this node comes from. That
	// began at Since, and has ended at LastSeen, if it has. They are not known for
	// executors of other nodes, and after the environment was not used for a while.
	Address  string     `json:"address,omitempty"`
	Since    *time.Time `json:"since,omitempty"`
	LastSeen *time.Time `json:"last_seen,omitempty"`
}

// flow is what has passed in a direction since the environment was first used,
// or used again after nobody had for a while.
type flow struct {
	Frames         uint64 `json:"frames"`
	Bytes          uint64 `json:"bytes"`
	BytesPerSecond uint64 `json:"bytes_per_second"`
}

func (m *meter) flow(now time.Time) flow {
	frames, bytes, perSecond := m.read(now)
	return flow{frames, bytes, perSecond}
}

func (s *Server) environmentStatus(reg *Listed) environmentStatus {
	e := environmentStatus{ID: reg.Environment, Registration: reg.ID, Connected: reg.Connected}
	if a := s.environments.find(reg.Environment); a != nil {
		now := s.now()
		e.Up, e.Down = a.up.meter.flow(now), a.down.meter.flow(now)
		a.mu.Lock()
		defer a.mu.Unlock()
		e.Harnesses, e.Streams = a.sockets, a.streams
		if v := a.visit; v != nil {
			e.Address, e.Since = v.address, new(v.since.UTC())
			if !v.last.IsZero() {
				e.LastSeen = new(v.last.UTC())
			}
		}
	}
	return e
}

// serveStatus shows the environments that a token is good for. Browsers send
// the token as a password.
func (s *Server) serveStatus(w http.ResponseWriter, r *http.Request) {
	secret := bearer(r)
	if _, password, ok := r.BasicAuth(); ok {
		secret = password
	}
	token, refused := s.authenticate(secret)
	if refused == nil {
		refused = s.charge("status", token, "")
	}
	if refused != nil {
		if refused.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Basic realm="rendezvous: any user, a token as password"`)
		}
		writeError(w, refused)
		return
	}
	list := []environmentStatus{}
	for _, reg := range s.state.List() {
		if token.covers(reg.Environment) {
			list = append(list, s.environmentStatus(&reg))
		}
	}
	slices.SortFunc(list, func(a, b environmentStatus) int { return cmp.Compare(a.ID, b.ID) })
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		writeJSON(w, http.StatusOK, struct {
			Environments []environmentStatus `json:"environments"`
		}{list})
		return
	}
	webpage.SetHeaders(w.Header(), statusPolicy)
	_, _ = w.Write(statusPage(list)) // a client that is gone needs no answer
}
