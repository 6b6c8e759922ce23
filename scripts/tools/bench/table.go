package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(v))
	if len(s)%2 == 1 {
		return s[len(s)/2]
	}
	return (s[len(s)/2-1] + s[len(s)/2]) / 2
}

// cell formats minimum, median and maximum.
func cell(v []float64) string {
	switch len(v) {
	case 0:
		return "-"
	case 1:
		return figure(v[0])
	default:
		return figure(slices.Min(v)) + " / " + figure(median(v)) + " / " + figure(slices.Max(v))
	}
}

func figure(f float64) string {
	switch {
	case f >= 100:
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	default:
		return fmt.Sprintf("%.2f", f)
	}
}

// ratio returns our median divided by another one, or "-" if one of them is missing.
func ratio(ours, other float64) string {
	if math.IsNaN(ours) || math.IsNaN(other) || math.IsInf(other, 0) || other <= 0 {
		return "-"
	}
	return figure(ours / other)
}

// aim is the target for our median. Each field that is not zero is one target.
type aim struct {
	ratio    float64 // at most this, as a part of the median of the faster release of Codex CLI
	most     float64 // at most this, in the unit of the row
	belowRaw bool    // at most the median of the column "raw"
}

// judge returns the targets and whether our median has reached them. It returns "-" if there is
// nothing to compare with.
func (a aim) judge(unit string, ours, better, raw float64) (aims, reached []string) {
	check := func(text string, known, ok bool) {
		aims = append(aims, text)
		switch {
		case math.IsNaN(ours) || !known:
			reached = append(reached, "-")
		case ok:
			reached = append(reached, "yes")
		default:
			reached = append(reached, "no")
		}
	}
	if a.ratio != 0 {
		check(strconv.FormatFloat(a.ratio, 'g', 3, 64)+" of theirs", !math.IsInf(better, 1), ours <= a.ratio*better)
	}
	if a.most != 0 {
		check(strconv.FormatFloat(a.most, 'f', -1, 64)+" "+unit, true, ours <= a.most)
	}
	if a.belowRaw {
		check("at most raw", !math.IsNaN(raw), ours <= raw)
	}
	return aims, reached
}

// print prints the table, the failed measurements, and how many targets were reached.
func (b *bench) print() {
	var names []string
	for _, s := range b.servers {
		names = append(names, s.name)
	}
	names = append(names, rawColumn)
	titles := append(append([]string{"min / median / max", "unit"}, names...), "ratio")
	compared := slices.Contains(names, beforeColumn)
	if compared {
		titles = append(titles, "to before")
	}
	lines := [][]string{append(titles, "aim", "reached")}
	yes, no := 0, []string(nil)
	for _, r := range b.rows {
		line := []string{r.name, r.unit}
		better := math.Inf(1)
		for _, name := range names {
			v := b.results[r.name][name]
			if len(v) == 0 && b.failures[r.name][name] != "" {
				line = append(line, "fails")
				continue
			}
			line = append(line, cell(v))
			if name != oursColumn && name != beforeColumn && name != rawColumn && len(v) > 0 {
				better = min(better, median(v))
			}
		}
		ours := median(b.results[r.name][oursColumn])
		line = append(line, ratio(ours, better))
		if compared {
			line = append(line, ratio(ours, median(b.results[r.name][beforeColumn])))
		}
		aims, reached := r.aim.judge(r.unit, ours, better, median(b.results[r.name][rawColumn]))
		for i, what := range reached {
			switch what {
			case "yes":
				yes++
			case "no":
				no = append(no, r.name+" ("+aims[i]+")")
			}
		}
		lines = append(lines, append(line, strings.Join(aims, ", "), strings.Join(reached, ", ")))
	}
	if b.markdown {
		for i, line := range lines {
			fmt.Println("| " + strings.Join(line, " | ") + " |")
			if i == 0 {
				fmt.Println("|" + strings.Repeat("---|", len(line)))
			}
		}
	} else {
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		for _, line := range lines {
			fmt.Fprintln(w, strings.Join(line, "\t"))
		}
		_ = w.Flush()
	}
	fmt.Println()
	b.explain(names)
	fmt.Printf("%d aims reached, %d missed\n", yes, len(no))
	for _, what := range no {
		fmt.Println("missed:", what)
	}
}

// explain returns the reasons for missing results, each once.
func (b *bench) explain(names []string) {
	said := map[string]bool{}
	for _, r := range b.rows {
		for _, name := range names {
			text := name + " fails: " + b.failures[r.name][name]
			if b.failures[r.name][name] != "" && !said[text] {
				said[text] = true
				fmt.Printf("%s (%s and others like it)\n", text, r.name)
			}
		}
	}
}
