package faultproxy

import (
	"testing"
	"time"
)

func TestPlansArePrinted(t *testing.T) {
	p := Plan{Seed: 7, Conns: []Conn{
		{Pieces: 512, Delay: time.Millisecond, Faults: []Fault{
			{Kind: Stall, Dir: Down, After: 4096, For: 20 * time.Millisecond},
			{Kind: ResetClient, Dir: Up, After: 99, For: time.Second},
		}},
		{Refuse: true},
		{},
	}}
	const want = "seed 7: pieces 512 delay 1ms stall@down:4096/20ms reset-client@up:99/1s, refuse, pass"
	if p.String() != want {
		t.Errorf("got %s, want %s", p, want)
	}
}

func TestRandomPlansKeepToTheirShape(t *testing.T) {
	s := Shape{Cuts: 4, Refusals: 2, First: 5000, Up: 10_000, Down: 1 << 20, Pause: 30 * time.Millisecond}
	var seen [kinds]int
	early, late, cuts, refusals := 0, 0, 0, 0
	for seed := range uint64(500) {
		p := Random(seed, s)
		if again := Random(seed, s); again.String() != p.String() {
			t.Fatalf("the same seed gave\n%v and\n%v", p, again)
		}
		bad, refused := 0, 0
		for i, c := range p.Conns {
			if c.Refuse {
				refused++
				if refused > s.Refusals {
					t.Errorf("%v: %d refusals after a cut", p, refused)
				}
				continue
			}
			bad, refused = bad+1, 0
			end := c.Faults[len(c.Faults)-1]
			least, most := int64(0), s.Up
			if end.Dir == Down {
				most = s.Down
			}
			if i == 0 {
				least = s.First
			}
			if end.Kind == Stall || end.After < least || end.After > least+most || end.For > s.Pause || c.Delay > time.Millisecond {
				t.Errorf("got %v; want end.Kind other than %v, end.After at least %v, end.After at most %v, end.For at most %v, c.Delay at most %v", p, Stall, least, least+most, s.Pause, time.Millisecond)
			}
			for _, f := range c.Faults {
				seen[f.Kind]++
				if f.After > end.After || f.Dir != end.Dir {
					t.Errorf("%v: %v never happens", p, f)
				}
			}
			if i > 0 && end.After < 1000 {
				early++
			}
			if end.After > 100_000 {
				late++
			}
		}
		cuts, refusals = max(cuts, bad), max(refusals, len(p.Conns)-bad)
	}
	for k, n := range seen {
		if n < 50 {
			t.Errorf("%v happened %d times", Kind(k), n)
		}
	}
	if early < 100 || late < 50 || cuts != s.Cuts || refusals == 0 {
		t.Errorf("%d early cuts, %d late ones, at most %d in a plan, at most %d refusals", early, late, cuts, refusals)
	}
}
