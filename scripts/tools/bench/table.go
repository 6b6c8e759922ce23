package main

import (
	"fmt"
	"math"
	"os"
	"slices"
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

// cell is minimum, median and maximum.
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

// print prints the table.
func (b *bench) print() {
	names := make([]string, 0, len(b.servers)+1)
	for _, s := range b.servers {
		names = append(names, s.name)
	}
	names = append(names, "raw")
	lines := [][]string{append(append([]string{"min / median / max", "unit"}, names...), "ratio", "aim", "")}
	for _, r := range b.rows {
		line := []string{r.name, r.unit}
		better := math.Inf(1)
		for _, name := range names {
			v := b.results[r.name][name]
			line = append(line, cell(v))
			if name != "ours" && name != "raw" && len(v) > 0 {
				better = min(better, median(v))
			}
		}
		ratio := median(b.results[r.name]["ours"]) / better
		lines = append(lines, append(line, verdict(ratio, r.target)...))
	}
	if b.markdown {
		for i, line := range lines {
			fmt.Println("| " + strings.Join(line, " | ") + " |")
			if i == 0 {
				fmt.Println("|" + strings.Repeat("---|", len(line)))
			}
		}
		return
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, line := range lines {
		fmt.Fprintln(w, strings.Join(line, "\t"))
	}
	_ = w.Flush()
}

// verdict is the ratio, what was aimed at and whether that was reached.
func verdict(ratio, target float64) []string {
	if math.IsNaN(ratio) || ratio == 0 {
		return []string{"-", "-", ""}
	}
	if math.IsInf(target, 1) {
		return []string{fmt.Sprintf("%.2f", ratio), "", ""}
	}
	reached := "yes"
	if ratio > target {
		reached = "no"
	}
	return []string{fmt.Sprintf("%.2f", ratio), fmt.Sprintf("%.2f", target), reached}
}
