//go:build linux || darwin

package execserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"time"

	"codex.internal/pkg/internal/webpage"
)

// statusPolicy allows the page its style: it has no script, and reloads itself by its head.
var statusPolicy = webpage.Policy("")

const (
	// The empty icon keeps browsers from asking for one.
	statusHead = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="10"><title>codex exec-server</title><link rel="icon" href="data:,">
<style>%s</style></head>
<body><main><h1>codex exec-server</h1>
`
	statusColumns = `<table><thead><tr><th scope="col">process</th><th scope="col">state</th><th scope="col">age</th>
<th scope="col">sandbox</th><th scope="col">input</th><th scope="col">output</th></tr></thead><tbody>
`
)

// json returns the report as JSON.
func (r *statusReport) json() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		return []byte("{}") // it has texts and numbers only
	}
	return text
}

// statusPage returns the page. Names, addresses and commands are texts of others.
func statusPage(r *statusReport, now time.Time) []byte {
	var page bytes.Buffer
	fmt.Fprintf(&page, statusHead, webpage.Style)
	sandbox := r.Sandbox
	if sandbox == "" {
		sandbox = "not needed yet"
	}
	fmt.Fprintf(&page, "<p>%s, version %s, for %s; sandbox: %s; %s</p>\n", html.EscapeString(r.Host), html.EscapeString(r.Version),
		age(now, r.Since), html.EscapeString(sandbox), webpage.Counted(len(r.Sessions), "session"))
	for i := range r.Sessions {
		writeSession(&page, &r.Sessions[i], now)
	}
	page.WriteString("</main></body></html>\n")
	return page.Bytes()
}

func writeSession(page *bytes.Buffer, s *sessionStatus, now time.Time) {
	state := "waits for its client"
	if s.Attached {
		state = "connected from " + s.Peer
	}
	client := s.Client
	if client == "" {
		client = "a client without a name"
	}
	fmt.Fprintf(page, "<h2>%s</h2>\n<p>session %s, %s, for %s; %s</p>\n", html.EscapeString(client), html.EscapeString(s.Session),
		html.EscapeString(state), age(now, s.Since), webpage.Counted(s.Tunnels, "tunnel"))
	if len(s.Processes) == 0 {
		page.WriteString("<p>No process.</p>\n")
		return
	}
	page.WriteString(statusColumns)
	for i := range s.Processes {
		writeProcess(page, &s.Processes[i], now)
	}
	page.WriteString("</tbody></table>\n")
	if s.Omitted > 0 {
		fmt.Fprintf(page, "<p>%d older ones are not shown.</p>\n", s.Omitted)
	}
}

func writeProcess(page *bytes.Buffer, p *processStatus, now time.Time) {
	class, state := "state", p.State
	if p.State == "running" {
		class = "state connected"
	}
	if p.ExitCode != nil {
		state = fmt.Sprintf("%s: %d %s", state, *p.ExitCode, p.Cause)
	}
	sandbox := "none"
	if p.Sandboxed {
		sandbox = sandboxLinux
	}
	fmt.Fprintf(page, `<tr><th scope="row">%s<small class="command">%s</small></th><td class="%s" data-label="state"><span>%s</span></td>`,
		html.EscapeString(p.ID), html.EscapeString(p.Command), class, html.EscapeString(state))
	for _, cell := range []struct{ label, text string }{
		{"age", age(now, p.Since)}, {"sandbox", sandbox},
		{"input", webpage.ByteSize(uint64(p.BytesIn))}, {"output", webpage.ByteSize(uint64(p.BytesOut))},
	} {
		fmt.Fprintf(page, `<td data-label="%s">%s</td>`, cell.label, cell.text)
	}
	page.WriteString("</tr>\n")
}

// age returns how long ago a time was, as people read it.
func age(now, then time.Time) string {
	d := max(now.Sub(then), 0)
	if d >= time.Minute {
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return d.Round(time.Second).String()
}
