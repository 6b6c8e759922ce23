package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
)

const (
	// leastRate is the share of the requested rate that the soak must reach. With less, it proves
	// nothing about that rate.
	leastRate = 0.8
	// leastSamples is the minimum number of samples under load that are compared.
	leastSamples = 40
)

// judge prints the results, and reports errors.
func (s *soak) judge(complain func(format string, args ...any)) {
	if failed := s.tally.print(); failed > 0 {
		complain("%d turns failed", failed)
	}
	if s.err != nil {
		complain("the server did not come to rest as after the first minute:\n%v", s.err)
		s.printLeft()
	}
	if !s.server.alive() {
		complain("the server has ended; see %s", s.server.log.Name())
	}
	for _, method := range s.uncalled() {
		complain("%s was never called with success", method)
	}
	s.judgeLoad(complain)
	if lost, cuts := s.tally.losses(); lost > cuts {
		complain("%d turns lost their connection, and only %d connections were cut", lost, cuts)
	}
	rate := s.reached()
	if rate < leastRate*s.rate {
		complain("%.3g turns a second were reached, not %.3g", rate, s.rate)
	}
	s.table()
	fmt.Printf("soak: %v of load, %.3g turns a second; again: scripts/soak --seed %d with the same options\n", s.loaded.Round(time.Second), rate, s.seed)
}

// uncalled returns the methods in the server's table that have never returned a result. The
// server's metrics have a row for each method.
func (s *soak) uncalled() []string {
	metrics, err := harness.Metrics(s.server.metrics)
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		method, ok := strings.CutPrefix(name, `exec_server_requests_total{method="`)
		method, result, _ := strings.Cut(method, `",`)
		if ok && method != "unknown" && result == `result="ok"}` && metrics[name] == 0 {
			found = append(found, method)
		}
	}
	return found
}

// judgeLoad compares the medians of the first and the last tenth of the load.
func (s *soak) judgeLoad(complain func(string, ...any)) {
	loaded := s.meter.kept(phaseLoad)
	if len(loaded) < leastSamples {
		return
	}
	tenth := len(loaded) / 10
	// Begin the first tenth when the first sessions have reached their maximum age.
	first, last := loaded[tenth:2*tenth], loaded[len(loaded)-tenth:]
	for q, k := range kinds {
		before, after := median(first, quantity(q)), median(last, quantity(q))
		if k.underLoad > 0 && after > before*k.underLoad+k.moreLoad {
			complain("%s under load: %.4g in the second tenth of the time, %.4g in the last one", k.name, before, after)
		}
	}
}

func median(of []sample, q quantity) float64 {
	values := make([]float64, 0, len(of))
	for _, s := range of {
		values = append(values, s.values[q])
	}
	slices.Sort(values)
	if len(values) == 0 {
		return 0
	}
	return values[len(values)/2]
}

// reached returns the number of turns per second under load.
func (s *soak) reached() float64 {
	loaded := s.meter.kept(phaseLoad)
	sum := 0.0
	for _, each := range loaded {
		sum += each.values[turnRate]
	}
	return sum / max(1, float64(len(loaded)))
}

// table prints the table of numbers for the documentation.
func (s *soak) table() {
	loaded := s.meter.kept(phaseLoad)
	fmt.Printf("%-46s %10s %10s %10s\n", "", "first rest", "load", "last rest")
	for q, k := range kinds {
		fmt.Printf("%-46s %10.5g %10.5g %10.5g\n", k.title, s.first.values[q], median(loaded, quantity(q)), s.last.values[q])
	}
}

// printLeft prints files and processes that should not exist.
func (s *soak) printLeft() {
	for _, p := range s.last.processes {
		fmt.Printf("  process %d: %.200s\n", p.PID, p.Command)
	}
	for i, name := range s.last.files {
		if i == mostPrinted {
			break
		}
		fmt.Printf("  file %s\n", name)
	}
	if s.last.values[descriptors] > s.first.values[descriptors] {
		fmt.Printf("  descriptors after the first minute: %s\n  and now: %s\n", strings.Join(s.first.descriptors, " "), strings.Join(s.last.descriptors, " "))
	}
}
