// Package soak loads the released program for hours and searches for leaks.
//
// It starts a codex exec-server as a process of an ordinary user with its own cgroup, and keeps
// many connections to it. Each connection goes through a proxy that cuts, stalls and refuses
// connections. The clients call all methods of the protocol in turn, with and without sandboxes.
// After the first minute, and at the end, the test lets the server come to rest: it closes all
// connections, and waits for the lifetime of lost sessions. Memory, descriptors, goroutines,
// processes, cgroups, mounts and files must then be the same both times, within named tolerances.
//
// It writes measurements during the load as CSV.
package soak

import (
	"flag"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
)

// options are the options of the command line.
type options struct {
	duration, warmUp time.Duration
	connections      int
	rate             float64
	ttl, interval    time.Duration
	user             int
	backend          string
	out              string
	seed             uint64
	verbose          bool
}

var asked options

func init() {
	flag.DurationVar(&asked.duration, "duration", 0, "how long the load goes on after the first rest; 0: there is no soak")
	flag.DurationVar(&asked.warmUp, "warm-up", time.Minute, "how long it goes on before that")
	flag.IntVar(&asked.connections, "connections", 200, "connections at a time")
	flag.Float64Var(&asked.rate, "rate", 10, "turns a second of all connections together: a turn is 1 to 30 requests")
	flag.DurationVar(&asked.ttl, "session-ttl", time.Minute, "the server's --session-ttl")
	flag.DurationVar(&asked.interval, "interval", 5*time.Second, "time between two measurements")
	flag.IntVar(&asked.user, "user", 0, "the ordinary user that the server runs as if this runs as root, an unused `uid`; 0: any; -1: root")
	flag.StringVar(&asked.backend, "backend", "auto", "the server's --sandbox-backend")
	flag.StringVar(&asked.out, "out", "", "`directory` for soak.csv and the server's log (default: none is kept)")
	flag.Uint64Var(&asked.seed, "seed", uint64(time.Now().UnixNano()), "`number` that decides what is done and cut")
	flag.BoolVar(&asked.verbose, "v", false, "print each failed and each lost turn")
}

// helpers are the functions of this program that its first argument selects: the programs that the
// server runs in turns that use the network.
var helpers = map[string]func([]string) int{"greet": greet, "fetch": fetch}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if helper := helpers[os.Args[1]]; helper != nil {
			os.Exit(helper(os.Args[2:]))
		}
	}
	harness.SlowMain(m)
}

// TestSoak is the test that scripts/soak runs.
func TestSoak(t *testing.T) {
	if asked.duration == 0 {
		t.Skip("scripts/soak says how long it takes")
	}
	o := asked
	switch {
	case os.Geteuid() != 0:
		o.user = -1
	case o.user == 0:
		o.user = harness.UnusedUser()
	}
	if o.out == "" {
		o.out = t.TempDir()
	}
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := newSoak(t, o)
	harness.Must(t, s.play(ctx))
	s.judge(t.Errorf)
}

// mostTries is the maximum number of repetitions of a turn whose connection was lost by a planned fault of its proxy.
const mostTries = 20

// TestTurnsCallEveryMethod takes each turn once, and reads from the server which methods in its
// table it has answered. A new method needs a turn.
func TestTurnsCallEveryMethod(t *testing.T) {
	harness.NeedSandbox(t)
	o := options{connections: 1, ttl: time.Second, interval: time.Hour, user: -1, backend: "auto", out: t.TempDir(), seed: 1}
	s := newSoak(t, o)
	if len(s.uncalled()) < 40 {
		t.Fatalf("the server tells of these methods alone: %q", s.uncalled())
	}
	k := newWorker(s, 0)
	k.Directory(k.ws)
	defer k.leave()
	for _, turn := range turns {
		for range mostTries {
			k.turn(t.Context(), turn)
			if c := s.tally.of(turn.name); c.done+c.failed > 0 {
				break
			}
		}
		if c := s.tally.of(turn.name); c.done != 1 || c.failed > 0 {
			t.Errorf("%s: got %+v; want c.done 1, c.failed at most 0", turn.name, *c)
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
			t.Errorf("%s: got error %v, want no error", k.name, err)
		}
		if err := leaked.more(before); (err == nil) != (quantity(q) == turnRate) || err != nil && !strings.Contains(err.Error(), k.name) {
			t.Errorf("%s: got error %v, want an error with %q", k.name, err, k.name)
		}
	}
}

// TestGrowthUnderLoadIsTold: growth under constant load is a leak, even if no growth is left at
// rest.
func TestGrowthUnderLoadIsTold(t *testing.T) {
	for name, tt := range map[string]struct {
		growth float64 // growth of the number of descriptors for each sample
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
