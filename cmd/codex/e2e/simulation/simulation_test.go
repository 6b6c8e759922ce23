package simulation

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"codex.internal/pkg/host/process"
	"codex.internal/pkg/testutil"
)

// fewSeeds and someSeeds are the numbers of seeds that are played without -count. CI plays more in
// a separate stage.
const (
	fewSeeds  = 10
	someSeeds = 50
)

var (
	firstSeed = flag.Uint64("seed", 1, "the first seed")
	packets   = flag.Bool("packets", false, "add every packet to the histories")
	seedCount = flag.Int("count", 0, "how many seeds are played; 0: as many as go test plays")
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Start goroutines that a package starts once for the whole program now: they must not belong
	// to a bubble.
	s, err := process.NewSupervisor(process.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s.Close()
	// With one processor and without garbage collections, four of five replays are exact.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	os.Exit(m.Run())
}

// TestSeeds plays many seeds. A failure names its seed and shows its history. If there are many
// runs, a quarter of them must be complete, because runs that lose their session prove little.
func TestSeeds(t *testing.T) {
	count := *seedCount
	if count == 0 {
		count = testutil.Rounds(fewSeeds, someSeeds, someSeeds)
	}
	plots, complete := make(map[string]int), 0
	for i := range count {
		seed := *firstSeed + uint64(i)
		o := safely(t, seed)
		plots[o.plot]++
		if o.complete {
			complete++
		}
		if (i+1)%500 == 0 {
			t.Logf("%d seeds were played", i+1)
		}
		if len(o.failures) > 0 {
			t.Errorf("%sagain: scripts/simulate --seed %d --times 20", o.history(seed), seed)
		} else if testing.Verbose() && count == 1 {
			t.Logf("%s", o.history(seed))
		}
	}
	t.Logf("%d seeds, of which %d were complete: %v", count, complete, plots)
	if count >= someSeeds && complete < count/4 {
		t.Errorf("got %d complete runs of %d, want a quarter", complete, count)
	}
}

// safely plays a seed. If the bubble finds leftover goroutines, it names the seed.
func safely(t *testing.T, seed uint64) outcome {
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("seed %d: %v", seed, r)
			panic(r)
		}
	}()
	o := play(t, seed)
	if seed%8 == 0 {
		runtime.GC()
	}
	return o
}
