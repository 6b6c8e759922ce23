package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
)

func TestMain(m *testing.M) {
	// The server runs this program in turns about the network.
	if len(os.Args) > 1 {
		if helper := helpers[os.Args[1]]; helper != nil {
			os.Exit(helper(os.Args[2:]))
		}
	}
	harness.SlowMain(m)
}

// mostTries is how often a turn is repeated that has lost its connection by the plan of its proxy.
const mostTries = 20

// TestTurnsCallEveryMethod takes each turn once and asks the server which methods of its
// table it has answered: a method that is added needs a turn.
func TestTurnsCallEveryMethod(t *testing.T) {
	harness.NeedSandbox(t)
	bin := t.TempDir()
	harness.Must(t, harness.Install(bin, "codex", "codex-fs", "codex-linux-sandbox"))
	base, err := os.MkdirTemp("/var/tmp", "soak")
	harness.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	o := options{connections: 1, ttl: time.Second, interval: time.Hour, user: -1, backend: "auto", bin: bin, out: t.TempDir(), seed: 1}
	s, err := newSoak(o, base)
	harness.Must(t, err)
	defer s.close()
	if len(s.uncalled()) < 40 {
		t.Fatalf("the server tells of these methods alone: %q", s.uncalled())
	}
	k := newWorker(s, 0)
	harness.Must(t, k.makeDirectory(k.ws))
	defer k.leave()
	for _, turn := range turns {
		for range mostTries {
			k.turn(t.Context(), turn)
			if c := s.tally.of(turn.name); c.done+c.failed > 0 {
				break
			}
		}
		if c := s.tally.of(turn.name); c.done != 1 || c.failed > 0 {
			t.Errorf("%s: %+v", turn.name, *c)
		}
	}
	if missing := s.uncalled(); len(missing) > 0 {
		t.Errorf("no turn calls %q", missing)
	}
}

func TestDecksHaveEveryTurn(t *testing.T) {
	size := 0
	for _, turn := range turns {
		size += turn.weight
	}
	var first, again []string
	for deck := range 3 {
		count := make(map[string]int)
		for n := deck * size; n < (deck+1)*size; n++ {
			name := dealt(7, n).name
			count[name]++
			first, again = append(first, name), append(again, dealt(7, n).name)
		}
		for _, turn := range turns {
			if count[turn.name] != turn.weight {
				t.Errorf("deck %d has %d turns of %s, not %d", deck, count[turn.name], turn.name, turn.weight)
			}
		}
	}
	if strings.Join(first, ",") != strings.Join(again, ",") {
		t.Error("the same seed deals other turns")
	}
	if strings.Join(first[:size], ",") == strings.Join(first[size:2*size], ",") {
		t.Error("the decks are not shuffled")
	}
}

func TestWhatIsMoreIsTold(t *testing.T) {
	for q, k := range kinds {
		before := sample{}
		before.values[q] = 100
		tolerated, leaked := before, before
		tolerated.values[q] += 100*k.part + k.more
		leaked.values[q] = tolerated.values[q] + 1
		if err := tolerated.more(before); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
		if err := leaked.more(before); (err == nil) != (quantity(q) == turnRate) || err != nil && !strings.Contains(err.Error(), k.name) {
			t.Errorf("%s: %v", k.name, err)
		}
	}
}

// TestGrowthUnderLoadIsTold: what grows while the load is the same is a leak, even if
// nothing of it is left at rest.
func TestGrowthUnderLoadIsTold(t *testing.T) {
	for name, tt := range map[string]struct {
		growth float64 // of descriptors, a sample
		want   int
	}{"steady": {0, 0}, "grows": {1, 1}} {
		s := &soak{meter: &meter{}}
		for i := range 200 {
			now := sample{phase: phaseLoad}
			now.values[descriptors] = 100 + tt.growth*float64(i)
			s.meter.samples = append(s.meter.samples, now)
		}
		complaints := 0
		s.judgeLoad(func(string, ...any) { complaints++ })
		if complaints != tt.want {
			t.Errorf("%s: %d complaints", name, complaints)
		}
	}
}
