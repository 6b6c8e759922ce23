package soak

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"codex.internal/pkg/testutil/faultproxy"
)

// mostPrinted is the maximum number of failures that are printed.
const mostPrinted = 50

// tally counts turns. Its zero value is ready.
type tally struct {
	mu      sync.Mutex
	turns   map[string]*turnCount
	failed  int
	missed  int
	cuts    int
	proxies faultproxy.Stats
}

type turnCount struct {
	done, lost, failed int
	slowest            time.Duration
}

func (t *tally) of(name string) *turnCount {
	if t.turns == nil {
		t.turns = make(map[string]*turnCount)
	}
	if t.turns[name] == nil {
		t.turns[name] = &turnCount{}
	}
	return t.turns[name]
}

func (t *tally) done(name string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of(name)
	c.done++
	c.slowest = max(c.slowest, took)
}

func (t *tally) lose(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(name).lost++
}

func (t *tally) fail(name string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(name).failed++
	t.failed++
	if t.failed <= mostPrinted {
		fmt.Printf("FAILED %s, %s: %v\n", time.Now().Format(time.TimeOnly), name, err)
	}
}

func (t *tally) miss() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.missed++
}

func (t *tally) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cuts++
}

func (t *tally) proxy(s faultproxy.Stats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.proxies.Conns += s.Conns
	t.proxies.Refused += s.Refused
	t.proxies.Faults += s.Faults
	t.proxies.Stalls += s.Stalls
	t.proxies.Up += s.Up
	t.proxies.Down += s.Down
}

// taken returns the number of finished turns.
func (t *tally) taken() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.turns {
		n += c.done + c.lost + c.failed
	}
	return n
}

// print prints all counts, and returns the number of failed turns.
func (t *tally) print() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Printf("%-22s %8s %6s %6s %10s\n", "turn", "done", "lost", "failed", "slowest")
	for _, name := range slices.Sorted(maps.Keys(t.turns)) {
		c := t.turns[name]
		fmt.Printf("%-22s %8d %6d %6d %10v\n", name, c.done, c.lost, c.failed, c.slowest.Round(time.Millisecond))
	}
	p := t.proxies
	fmt.Printf("%d connections through proxies, %d refused, %d ended by plan, %d stalls, %d cuts by the clock, %d MB up, %d MB down; %d turns not taken in time\n",
		p.Conns, p.Refused, p.Faults, p.Stalls, t.cuts, p.Up/1e6, p.Down/1e6, t.missed)
	return t.failed
}

// losses returns the number of turns whose connection was lost, and the number of cut connections.
func (t *tally) losses() (lost, cuts int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.turns {
		lost += c.lost
	}
	return lost, t.cuts + t.proxies.Faults + t.proxies.Refused
}
