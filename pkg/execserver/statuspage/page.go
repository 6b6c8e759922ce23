package statuspage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"time"

	"codex.internal/pkg/internal/webpage"
)

// policy permits the page its style. The page has no script, and reloads itself through an
// element of its head. confirmPolicy also permits the form of the confirmation.
var (
	policy        = webpage.Policy("")
	confirmPolicy = webpage.FormPolicy()
)

const (
	// The empty icon keeps browsers from requesting one.
	statusHead = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="10"><title>codex exec-server</title><link rel="icon" href="data:,">
<style>%s</style></head>
<body><main><h1>codex exec-server</h1>
`
	statusColumns = `<table><thead><tr><th scope="col">process</th><th scope="col">state</th><th scope="col">age</th>
<th scope="col">processor</th><th scope="col">memory</th><th scope="col">processes</th>
<th scope="col">sandbox</th><th scope="col">input</th><th scope="col">output</th></tr></thead><tbody>
`
	detachedColumns = `<table><thead><tr><th scope="col">process</th><th scope="col">state</th><th scope="col">age</th>
<th scope="col">processor</th><th scope="col">memory</th><th scope="col">processes</th><th scope="col">retained</th></tr></thead><tbody>
`
	confirmHead = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>end a process? codex exec-server</title><link rel="icon" href="data:,">
<style>%s</style></head>
<body><main><h1>End this process?</h1>
`
)

// json returns the report as JSON.
func (r *Report) json() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		return []byte("{}") // a report has only texts and numbers
	}
	return text
}

// page returns the page. Names, addresses and commands are untrusted texts.
func (p *Page) page(r *Report, now time.Time) []byte {
	var page bytes.Buffer
	fmt.Fprintf(&page, statusHead, webpage.Style)
	sandbox := r.Sandbox
	if sandbox == "" {
		sandbox = "not needed yet"
	}
	fmt.Fprintf(&page, "<p>%s, version %s, for %s; sandbox: %s; %s</p>\n", html.EscapeString(r.Host), html.EscapeString(r.Version),
		age(now, r.Since), html.EscapeString(sandbox), webpage.Counted(len(r.Sessions), "session"))
	for i := range r.Sessions {
		p.writeSession(&page, &r.Sessions[i], now)
	}
	if len(r.Detached) > 0 {
		page.WriteString("<h2>Detached processes</h2>\n" + detachedColumns)
		for i := range r.Detached {
			p.writeDetachedRow(&page, &r.Detached[i], now)
		}
		page.WriteString("</tbody></table>\n")
	}
	page.WriteString("</main></body></html>\n")
	return page.Bytes()
}

// confirmPage returns the page that asks whether a process is to be ended.
func confirmPage(t *Target, ref, proof string) []byte {
	var page bytes.Buffer
	fmt.Fprintf(&page, confirmHead, webpage.Style)
	fmt.Fprintf(&page, "<p><b>%s</b></p>\n<p class=\"command\">%s</p>\n<p>It is killed with all its descendants.</p>\n",
		html.EscapeString(t.Name), html.EscapeString(t.Command))
	fmt.Fprintf(&page, `<form method="post" action="%s"><input type="hidden" name="%s" value="%s"><input type="hidden" name="%s" value="%s">`,
		Path, endField, html.EscapeString(ref), proofField, html.EscapeString(proof))
	fmt.Fprintf(&page, "<button>End the process</button> <a href=\"%s\">Leave it</a></form></main></body></html>\n", Path)
	return page.Bytes()
}

// cell is a cell of a table: its label on a narrow screen, and its text.
type cell struct{ label, text string }

// usageCells returns the cells with the usage of a process.
func usageCells(u *Usage) []cell {
	processor, memory, processes := "", "", ""
	if u != nil {
		processor = (time.Duration(u.UserMS+u.SystemMS) * time.Millisecond).Round(10 * time.Millisecond).String()
		memory, processes = webpage.ByteSize(u.MemoryBytes), fmt.Sprint(u.Processes)
	}
	return []cell{{"processor", processor}, {"memory", memory}, {"processes", processes}}
}

// writeRow writes the row of a process. ref is empty if the client may not end it.
func writeRow(page *bytes.Buffer, id, command, class, state, ref string, cells []cell) {
	end := ""
	if ref != "" {
		end = fmt.Sprintf(` <a href="%s?%s=%s">end…</a>`, Path, endField, ref)
	}
	fmt.Fprintf(page, `<tr><th scope="row">%s%s<small class="command">%s</small></th><td class="%s" data-label="state"><span>%s</span></td>`,
		html.EscapeString(id), end, html.EscapeString(command), class, html.EscapeString(state))
	for _, c := range cells {
		fmt.Fprintf(page, `<td data-label="%s">%s</td>`, c.label, html.EscapeString(c.text))
	}
	page.WriteString("</tr>\n")
}

func (p *Page) writeDetachedRow(page *bytes.Buffer, d *Detached, now time.Time) {
	class, state := "state", d.State
	if d.State == "running" {
		class = "state connected"
	}
	if d.ExitCode != nil {
		state = fmt.Sprintf("%s: %d", state, *d.ExitCode)
	}
	name := d.ID
	if d.Owner != "" {
		name += " of " + d.Owner
	}
	cells := append([]cell{{"age", age(now, d.Since)}}, usageCells(d.Usage)...)
	writeRow(page, name, d.Command, class, state, p.secret.ref(d.Key), append(cells, cell{"retained", webpage.ByteSize(d.Retained)}))
}

func (p *Page) writeSession(page *bytes.Buffer, s *Session, now time.Time) {
	state := "waits for its client"
	if s.Attached {
		state = "connected from " + s.Peer
	}
	client := s.Client
	if client == "" {
		client = "a client without a name"
	}
	owner := ""
	if s.Owner != "" {
		owner = " of " + s.Owner
	}
	fmt.Fprintf(page, "<h2>%s</h2>\n<p>session %s%s, %s, for %s; %s, %s</p>\n", html.EscapeString(client), html.EscapeString(s.Session),
		html.EscapeString(owner), html.EscapeString(state), age(now, s.Since), webpage.Counted(s.Tunnels, "tunnel"), webpage.Counted(int(min(s.Requests, math.MaxInt)), "request"))
	if len(s.Processes) == 0 {
		page.WriteString("<p>No process.</p>\n")
		return
	}
	page.WriteString(statusColumns)
	for i := range s.Processes {
		p.writeProcess(page, &s.Processes[i], now)
	}
	page.WriteString("</tbody></table>\n")
	if s.Omitted > 0 {
		fmt.Fprintf(page, "<p>%d older ones are not shown.</p>\n", s.Omitted)
	}
}

func (p *Page) writeProcess(page *bytes.Buffer, pr *Process, now time.Time) {
	class, state := "state", pr.State
	if pr.State == "running" {
		class = "state connected"
	}
	if pr.ExitCode != nil {
		state = fmt.Sprintf("%s: %d %s", state, *pr.ExitCode, pr.Cause)
	}
	sandbox := "none"
	if pr.Sandboxed {
		sandbox = "linuxSeccomp"
	}
	cells := append([]cell{{"age", age(now, pr.Since)}}, usageCells(pr.Usage)...)
	writeRow(page, pr.ID, pr.Command, class, state, p.secret.ref(pr.Key), append(cells, cell{"sandbox", sandbox},
		cell{"input", webpage.ByteSize(uint64(pr.BytesIn))}, cell{"output", webpage.ByteSize(uint64(pr.BytesOut))}))
}

// age returns how long ago then was, in a readable form.
func age(now, then time.Time) string {
	d := max(now.Sub(then), 0)
	if d >= time.Minute {
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return d.Round(time.Second).String()
}
