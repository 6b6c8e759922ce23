package rendezvous

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page's style and script
	"encoding/base64"
	"fmt"
	"html"
	"strconv"
)

var (
	//go:embed status.css
	statusStyle string
	//go:embed status.js
	statusScript string
)

// statusPolicy allows the page its own style and script, to fetch itself, and
// nothing else: were an id to get into the markup, it could not do anything.
var statusPolicy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; connect-src 'self'; img-src data:" +
	"; style-src " + sourceHash(statusStyle) + "; script-src " + sourceHash(statusScript)

// sourceHash names an inline style or script in a policy.
func sourceHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

const (
	// The empty icon keeps browsers from asking for one.
	statusHead = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>rendezvous</title><link rel="icon" href="data:,">
<style>%s</style></head>
<body><main><h1>rendezvous</h1>
`
	statusColumns = `<table><thead><tr><th scope="col">environment</th><th scope="col">executor</th><th scope="col">clients</th>
<th scope="col">streams</th><th scope="col">to the executor</th><th scope="col">from the executor</th></tr></thead><tbody>
`
	statusFoot = `</main><p id="notice" role="status"></p><script>%s</script></body></html>
`
)

// statusPage returns the page for people, which fetches itself now and then.
// Ids are the only texts on it that are not the service's own. (The package
// html/template would add 0.2 MB to every codex.)
func statusPage(list []environmentStatus) []byte {
	var page bytes.Buffer
	fmt.Fprintf(&page, statusHead, statusStyle)
	if len(list) == 0 {
		page.WriteString("<p>No environment is registered that this token is good for.</p>\n")
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
		counted(len(list), "environment"), connected, counted(harnesses, "client"), counted(streams, "stream"), perSecond(up), perSecond(down))
}

func writeStatusRow(page *bytes.Buffer, e *environmentStatus) {
	class, state := "state", "offline"
	if e.Connected {
		class, state = "state connected", "connected"
	}
	fmt.Fprintf(page, `<tr><th scope="row">%s</th><td class="%s" data-label="executor"><span>%s</span></td>`, html.EscapeString(e.ID), class, state)
	fmt.Fprintf(page, `<td data-label="clients">%d</td><td data-label="streams">%d</td>`, e.Harnesses, e.Streams)
	for _, direction := range []struct {
		label string
		flow
	}{{"to the executor", e.Up}, {"from the executor", e.Down}} {
		fmt.Fprintf(page, `<td data-label="%s"><span>%s<small>%s in %s</small></span></td>`,
			direction.label, perSecond(direction.BytesPerSecond), byteSize(direction.Bytes), counted(direction.Frames, "frame"))
	}
	page.WriteString("</tr>\n")
}

// counted returns a number of things.
func counted[N int | uint64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprint(n, " ", thing)
}

func perSecond(bytes uint64) string { return byteSize(bytes) + "/s" }

// byteSize returns a size as people read it.
func byteSize(n uint64) string {
	if n < 1<<10 {
		return strconv.FormatUint(n, 10) + " B"
	}
	size, units := float64(n)/(1<<10), []string{"KiB", "MiB", "GiB", "TiB"}
	// A number that rounds up to 1024.0 of a unit is shown as 1.0 of the next.
	for ; size >= 1023.95 && len(units) > 1; units = units[1:] {
		size /= 1 << 10
	}
	return strconv.FormatFloat(size, 'f', 1, 64) + " " + units[0]
}
