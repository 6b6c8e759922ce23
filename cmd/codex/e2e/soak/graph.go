package main

import (
	"encoding/csv"
	"fmt"
	"html"
	"math"
	"os"
	"strconv"
	"strings"
)

// drawn are the panels of the graph, in rows of two.
var drawn = []quantity{memory, descriptors, goroutines, processes, cgroups, namespaces, mounts, temporaryFiles, sessions, turnRate}

// Sizes of the graph in its own units.
const (
	panelWidth, panelHeight = 440.0, 150.0
	left, right, top, foot  = 46.0, 14.0, 30.0, 22.0
	gap                     = 14.0
)

// style has colors for light and dark backgrounds.
const style = `<style>
svg { font: 12px system-ui, sans-serif; background: #ffffff; }
text { fill: #24292f; } .small { font-size: 10px; fill: #57606a; }
.frame { fill: none; stroke: #d0d7de; } .rest { fill: #2da44e; opacity: .18; }
.line { fill: none; stroke: #0969da; stroke-width: 1.2; } .dot { fill: #1a7f37; }
@media (prefers-color-scheme: dark) {
 svg { background: #0d1117; } text { fill: #e6edf3; } .small { fill: #8d96a0; }
 .frame { stroke: #3d444d; } .rest { fill: #3fb950; opacity: .25; } .line { stroke: #58a6ff; } .dot { fill: #56d364; }
}
</style>
`

// graph returns an SVG of samples: each quantity over time, with the times of rest marked.
func graph(samples []sample) string {
	rows := (len(drawn) + 1) / 2
	width, height := 2*panelWidth+3*gap, float64(rows)*(panelHeight+gap)+gap
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>What a server has during a soak</title>\n%s", style)
	for i, q := range drawn {
		x, y := gap+float64(i%2)*(panelWidth+gap), gap+float64(i/2)*(panelHeight+gap)
		fmt.Fprintf(&b, `<g transform="translate(%g %g)">`+"\n", x, y)
		panel(&b, samples, q)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// panel draws one quantity.
func panel(b *strings.Builder, samples []sample, q quantity) {
	end, most := 1.0, 1.0
	for _, s := range samples {
		end, most = max(end, s.seconds), max(most, s.values[q])
	}
	most = roundUp(most)
	x := func(s float64) float64 { return left + s/end*(panelWidth-left-right) }
	y := func(v float64) float64 { return panelHeight - foot - v/most*(panelHeight-top-foot) }
	fmt.Fprintf(b, `<text x="%g" y="18">%s</text>`+"\n", left, html.EscapeString(kinds[q].title))
	fmt.Fprintf(b, `<rect class="frame" x="%g" y="%g" width="%g" height="%g"/>`+"\n", left, top, panelWidth-left-right, panelHeight-top-foot)
	for _, v := range []float64{0, most / 2, most} {
		fmt.Fprintf(b, `<text class="small" x="%g" y="%.1f" text-anchor="end">%g</text>`+"\n", left-6, y(v)+3, v)
	}
	for i := range 5 {
		at := end * float64(i) / 4
		fmt.Fprintf(b, `<text class="small" x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n", x(at), panelHeight-6, minutes(at))
	}
	quiet(b, samples, x)
	curve(b, samples, q, x, y)
}

// quiet marks the times without load, from the first sample of each to the next of load.
func quiet(b *strings.Builder, samples []sample, x func(float64) float64) {
	from := -1.0
	for i, s := range samples {
		loaded := s.phase == phaseWarm || s.phase == phaseLoad
		if !loaded && from < 0 {
			from = s.seconds
		}
		if from >= 0 && (loaded || i == len(samples)-1) {
			fmt.Fprintf(b, `<rect class="rest" x="%.1f" y="%g" width="%.1f" height="%g"/>`+"\n", x(from), top, max(1, x(s.seconds)-x(from)), panelHeight-top-foot)
			from = -1
		}
	}
}

// curve draws the line, and a dot with its value for each measurement at rest.
func curve(b *strings.Builder, samples []sample, q quantity, x, y func(float64) float64) {
	var points []string
	for _, s := range samples {
		points = append(points, fmt.Sprintf("%.1f,%.1f", x(s.seconds), y(s.values[q])))
	}
	fmt.Fprintf(b, `<polyline class="line" points="%s"/>`+"\n", strings.Join(points, " "))
	for _, s := range samples {
		if s.phase != phaseRest || q == turnRate {
			continue
		}
		at := x(s.seconds)
		anchor, dx := "start", 6.0
		if at > panelWidth/2 {
			anchor, dx = "end", -6
		}
		fmt.Fprintf(b, `<circle class="dot" cx="%.1f" cy="%.1f" r="3"/><text class="small" x="%.1f" y="%.1f" text-anchor="%s">%.4g</text>`+"\n",
			at, y(s.values[q]), at+dx, y(s.values[q])-6, anchor, s.values[q])
	}
}

func minutes(seconds float64) string {
	if seconds < 300 {
		return fmt.Sprintf("%.0f s", seconds)
	}
	return fmt.Sprintf("%.0f min", seconds/60)
}

// roundUp returns 1, 2 or 5 times a power of ten, at least v.
func roundUp(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 2, 5} {
		if n*power >= v {
			return n * power
		}
	}
	return 10 * power
}

// drawFile writes the graph of a CSV file of a soak to standard output.
func drawFile(args []string) int {
	samples, err := readSamples(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak: graph:", err)
		return 1
	}
	fmt.Print(graph(samples))
	return 0
}

func readSamples(args []string) ([]sample, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("one CSV file is needed")
	}
	f, err := os.Open(args[0])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || strings.Join(rows[0], ",") != csvHead() {
		return nil, fmt.Errorf("%s: the columns are not those of a soak", args[0])
	}
	var samples []sample
	for _, row := range rows[1:] {
		s := sample{phase: row[1]}
		if s.seconds, err = strconv.ParseFloat(row[0], 64); err != nil {
			return nil, err
		}
		for q := range s.values {
			if s.values[q], err = strconv.ParseFloat(row[2+q], 64); err != nil {
				return nil, err
			}
		}
		samples = append(samples, s)
	}
	return samples, nil
}
