package rendezvous

import (
	"net/http"
	"sort"
	"strings"
	"time"

	"codex.internal/pkg/internal/metrics"
	"codex.internal/pkg/internal/webpage"
)

// totals are the current numbers. Sockets and streams are those of this
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

// programs returns how many executors and harnesses of each program are connected. An executor and its harnesses are those of the
// node to which the executor is connected, so that no other node counts them.
func (s *Server) programs() map[metrics.Program]int {
	all := make(map[metrics.Program]int)
	for _, reg := range s.state.List() {
		a := s.environments.find(reg.Environment)
		if a == nil {
			continue
		}
		a.mu.Lock()
		x := a.executors[reg.ID]
		a.mu.Unlock()
		if x == nil {
			continue
		}
		agent := ""
		if reg.Connection != nil {
			agent = reg.Connection.Agent
		}
		all[metrics.Program{Name: "executor", Build: agent}]++
		x.mu.Lock()
		for _, h := range x.harnesses {
			all[metrics.Program{Name: "harness", Build: h.agent}]++
		}
		x.mu.Unlock()
	}
	return all
}

// environmentStatus is an environment on the status page. Up is from harnesses
// to the executor.
type environmentStatus struct {
	ID           string `json:"id"`
	Registration string `json:"executor_registration_id"`
	Connected    bool   `json:"connected"`
	Harnesses    int    `json:"harnesses"`
	Streams      int    `json:"streams"`
	// Clients are the programs of the harnesses that have the most connections.
	Clients []clientStatus `json:"clients"`
	Up      flow           `json:"up"`
	Down    flow           `json:"down"`
	// Name and Program are the executor's description of itself, if it sent one. Address is the
	// address of its newest connection, which began at Since. LastSeen is when that connection
	// ended, if it has ended and its node could record that. All of these are unknown before the
	// executor has connected.
	Name     string     `json:"executor_name,omitempty"`
	Program  string     `json:"executor_program,omitempty"`
	Address  string     `json:"address,omitempty"`
	Since    *time.Time `json:"since,omitempty"`
	LastSeen *time.Time `json:"last_seen,omitempty"`
}

// flow counts the traffic in one direction since the environment was first used, or since it was
// used again after a pause.
type flow struct {
	Frames         uint64 `json:"frames"`
	Bytes          uint64 `json:"bytes"`
	BytesPerSecond uint64 `json:"bytes_per_second"`
}

func (m *meter) flow(now time.Time) flow {
	frames, bytes, perSecond := m.read(now)
	return flow{frames, bytes, perSecond}
}

// environmentStatus combines what the state and the nodes know about an environment.
func (s *Server) environmentStatus(reg *Listed, others []activity) environmentStatus {
	e := environmentStatus{ID: reg.Environment, Registration: reg.ID, Connected: reg.Connected, Clients: []clientStatus{}}
	if c := reg.Connection; c != nil {
		e.Name, e.Program, e.Address, e.Since = c.Name, c.Agent, c.Address, new(c.Since)
		if !c.Until.IsZero() {
			e.LastSeen = new(c.Until)
		}
	}
	known := others
	if a := s.environments.find(reg.Environment); a != nil {
		known = append([]activity{s.activity(reg.Environment, a)}, others...)
	}
	var most uint64
	for i := range known {
		x := known[i].executor(reg.ID)
		if x != nil {
			e.Up, e.Down, e.Harnesses, e.Streams = known[i].Up, known[i].Down, x.Harnesses, x.Streams
			e.Clients = append(e.Clients, x.Clients...)
			return e
		}
		// The executor is not connected. The node to which it was connected knows its earlier
		// traffic.
		if frames := known[i].frames(); frames > most {
			most, e.Up, e.Down = frames, known[i].Up, known[i].Down
		}
	}
	return e
}

// serveStatus serves the page with the environments that a token permits. Browsers send the token
// as a password.
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
	others := s.survey.all()
	for _, reg := range s.state.List() {
		if token.covers(reg.Environment) {
			list = append(list, s.environmentStatus(&reg, others[reg.Environment]))
		}
	}
	// slices.SortFunc is not used, because it adds 14 KB to the program for each type.
	sort.Slice(list, func(i, j int) bool { return list[i].ID < list[j].ID })
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		writeJSON(w, http.StatusOK, struct {
			Environments []environmentStatus `json:"environments"`
		}{list})
		return
	}
	webpage.SetHeaders(w.Header(), statusPolicy)
	_, _ = w.Write(statusPage(list)) // a client that is gone needs no answer
}
