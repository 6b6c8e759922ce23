package rendezvous

import (
	"bytes"
	_ "embed" // the page's script
	"fmt"
	"html"
	"strings"

	"codex.internal/pkg/internal/webpage"
)

// statusScript makes the page fetch itself.
//
//go:embed status.js
var statusScript string

var statusPolicy = webpage.Policy(statusScript)

const (
	// The empty icon prevents browsers from requesting one.
	statusHead = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>rendezvous</title><link rel="icon" href="data:,">
<style>%s</style></head>
<body><main><h1>rendezvous</h1>
`
	statusColumns = `<table><thead><tr><th scope="col">environment</th><th scope="col">executor</th><th scope="col">version</th><th scope="col">clients</th>
<th scope="col">streams</th><th scope="col">to the executor</th><th scope="col">from the executor</th><th scope="col">seen</th></tr></thead><tbody>
`
	statusFoot = `</main><p id="notice" role="status"></p><script>%s</script></body></html>
`
)

// statusPage returns the page for people, which fetches itself every 2 s (status.js). The only
// texts on it that others choose are ids, addresses, and descriptions that executors and clients
// sent.
func statusPage(list []environmentStatus) []byte {
	var page bytes.Buffer
	fmt.Fprintf(&page, statusHead, webpage.Style)
	if len(list) == 0 {
		page.WriteString("<p>No environment that this token permits is registered.</p>\n")
	} else {
		fmt.Fprintf(&page, "<p>%s</p>\n", statusSums(list))
		page.WriteString(statusColumns)
		for i := range list {
			writeStatusRow(&page, &list[i])
		}
		page.WriteString("</tbody></table>\n")
	}
	fmt.Fprintf(&page, statusFoot, statusScript)
	return page.Bytes()
}

// statusSums returns the line above the table.
func statusSums(list []environmentStatus) string {
	var connected, harnesses, streams int
	var up, down uint64
	for _, e := range list {
		if e.Connected {
			connected++
		}
		harnesses += e.Harnesses
		streams += e.Streams
		up += e.Up.BytesPerSecond
		down += e.Down.BytesPerSecond
	}
	return fmt.Sprintf("%s, %d connected; %s, %s; %s to executors, %s from them",
		webpage.Counted(len(list), "environment"), connected, webpage.Counted(harnesses, "client"), webpage.Counted(streams, "stream"), perSecond(up), perSecond(down))
}

func writeStatusRow(page *bytes.Buffer, e *environmentStatus) {
	class, state := "state", "offline"
	if e.Connected {
		class, state = "state connected", "connected"
	}
	fmt.Fprintf(page, `<tr><th scope="row">%s</th><td class="%s" data-label="executor"><span>%s%s</span></td>`,
		html.EscapeString(e.ID), class, state, detail(e.Name))
	fmt.Fprintf(page, `<td data-label="version"><span class="detail">%s</span></td>`, html.EscapeString(e.Program))
	fmt.Fprintf(page, `<td data-label="clients"><span>%d%s</span></td><td data-label="streams">%d</td>`, e.Harnesses, clients(e), e.Streams)
	for _, direction := range []struct {
		label string
		flow
	}{{"to the executor", e.Up}, {"from the executor", e.Down}} {
		fmt.Fprintf(page, `<td data-label="%s"><span>%s<small>%s in %s</small></span></td>`,
			direction.label, perSecond(direction.BytesPerSecond), webpage.ByteSize(direction.Bytes), webpage.Counted(direction.Frames, "frame"))
	}
	when, where := seen(e)
	fmt.Fprintf(page, `<td data-label="seen"><span>%s%s</span></td>`, when, detail(where))
	page.WriteString("</tr>\n")
}

// detail returns a line in small type with a text that may be long and that others may choose, such
// as an executor's description of itself. It returns "" for an empty text.
func detail(text string) string {
	if text == "" {
		return ""
	}
	return `<small class="detail">` + html.EscapeString(text) + `</small>`
}

// clients returns a line for each program of the harnesses. One more line counts the harnesses that
// name no program, or a program beyond statusClients.
func clients(e *environmentStatus) string {
	var lines strings.Builder
	unnamed := e.Harnesses
	for _, c := range e.Clients {
		if c.Program == "" {
			continue
		}
		unnamed -= c.Connections
		lines.WriteString(detail(fmt.Sprintf("%s: %d, %s", c.Program, c.Connections, webpage.Counted(c.Streams, "stream"))))
	}
	if unnamed > 0 && lines.Len() > 0 {
		lines.WriteString(detail(fmt.Sprintf("others: %d", unnamed)))
	}
	return lines.String()
}

// seen describes when the executor was connected and from which address. It shows times and not
// ages, because an age would change while a person reads the page.
func seen(e *environmentStatus) (when, where string) {
	const format = "2006-01-02 15:04 UTC"
	switch {
	case e.Since == nil:
		return "not connected yet", ""
	case e.Connected:
		return "since " + e.Since.Format(format), "from " + e.Address
	case e.LastSeen != nil:
		return "until " + e.LastSeen.Format(format), "from " + e.Address
	default:
		return "since " + e.Since.Format(format), "from " + e.Address + ", until its node was lost"
	}
}

func perSecond(bytes uint64) string { return webpage.ByteSize(bytes) + "/s" }
