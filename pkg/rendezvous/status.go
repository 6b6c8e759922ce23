package rendezvous

import (
	"cmp"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"
)

// totals are what there is at a time.
type totals struct{ environments, executors, harnesses, streams int }

func (s *Server) totals() totals {
	var t totals
	for _, reg := range s.registry.list() {
		e := s.environmentStatus(&reg)
		t.environments++
		t.harnesses += e.Harnesses
		t.streams += e.Streams
		if e.Connected {
			t.executors++
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
}

// flow is what has passed in a direction since the environment was first used.
type flow struct {
	Frames         uint64 `json:"frames"`
	Bytes          uint64 `json:"bytes"`
	BytesPerSecond uint64 `json:"bytes_per_second"`
}

func (m *meter) flow(now time.Time) flow {
	frames, bytes, perSecond := m.read(now)
	return flow{frames, bytes, perSecond}
}

func (s *Server) environmentStatus(reg *registration) environmentStatus {
	e := environmentStatus{ID: reg.Environment, Registration: reg.ID, Connected: reg.sockets > 0}
	if a := s.environments.find(reg.Environment); a != nil {
		now := s.now()
		e.Up, e.Down = a.up.meter.flow(now), a.down.meter.flow(now)
		a.mu.Lock()
		defer a.mu.Unlock()
		e.Harnesses, e.Streams = a.sockets, a.streams
	}
	return e
}

var statusPage = template.Must(template.New("status").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>rendezvous</title>
<style>body{font:15px/1.5 system-ui,sans-serif;margin:2em}table{border-collapse:collapse}
td,th{padding:.2em .9em;border-bottom:1px solid #ccc;text-align:right}td:first-child,th:first-child{text-align:left}</style></head>
<body><h1>rendezvous</h1>
{{if .}}<table><tr><th>environment</th><th>executor</th><th>harnesses</th><th>streams</th>
<th>frames up</th><th>bytes up</th><th>up, B/s</th><th>frames down</th><th>bytes down</th><th>down, B/s</th></tr>
{{range .}}<tr><td>{{.ID}}</td><td>{{if .Connected}}connected{{else}}offline{{end}}</td><td>{{.Harnesses}}</td><td>{{.Streams}}</td>
<td>{{.Up.Frames}}</td><td>{{.Up.Bytes}}</td><td>{{.Up.BytesPerSecond}}</td>
<td>{{.Down.Frames}}</td><td>{{.Down.Bytes}}</td><td>{{.Down.BytesPerSecond}}</td></tr>
{{end}}</table>{{else}}<p>No environment is registered that this token is good for.</p>{{end}}
</body></html>
`))

// serveStatus shows the environments that a token is good for. Browsers send
// the token as a password.
func (s *Server) serveStatus(w http.ResponseWriter, r *http.Request) {
	secret := bearer(r)
	if _, password, ok := r.BasicAuth(); ok {
		secret = password
	}
	token, refused := s.authenticate(secret)
	if refused != nil {
		w.Header().Set("WWW-Authenticate", `Basic realm="rendezvous: any user, a token as password"`)
		writeError(w, refused)
		return
	}
	list := []environmentStatus{}
	for _, reg := range s.registry.list() {
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
	var page strings.Builder
	if err := statusPage.Execute(&page, list); err != nil {
		writeError(w, &apiError{http.StatusInternalServerError, "internal", err.Error()})
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte(page.String())) // a client that is gone needs no answer
}
