//go:build linux

package simulation

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/host/process"
)

var (
	firstSeed   = flag.Uint64("seed", 1, "the first seed")
	replays     = flag.Int("replays", defaultReplays, "how often TestAReplayIsExact plays each of its seeds")
	replaySeeds = flag.Int("replay-seeds", 5, "how many seeds TestAReplayIsExact plays")
	seedCount   = flag.Int("count", defaultCount, "how many seeds are played")
)

func refused(res *http.Response) error { return fmt.Errorf("the server answered %s", res.Status) }

func TestMain(m *testing.M) {
	flag.Parse()
	// What a package starts once for the whole program must not belong to a bubble.
	s, err := process.NewSupervisor(process.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s.Close()
	runtime.GOMAXPROCS(1)
	// The less of the runtime's own work comes in between, the more exact is a replay.
	debug.SetGCPercent(-1)
	os.Exit(m.Run())
}

// TestSeeds plays many seeds. A failure names its seed and shows its history.
func TestSeeds(t *testing.T) {
	plots := make(map[string]int)
	for i := range *seedCount {
		seed := *firstSeed + uint64(i)
		o := safely(t, seed)
		plots[o.plot]++
		if (i+1)%500 == 0 {
			t.Logf("%d seeds were played", i+1)
		}
		if len(o.failures) > 0 {
			t.Errorf("seed %d (%s):\n%s\n%s", seed, o.plot, strings.Join(o.failures, "\n"), strings.Join(o.lines, "\n"))
		} else if testing.Verbose() && *seedCount == 1 {
			t.Logf("seed %d:\n%s", seed, strings.Join(o.lines, "\n"))
		}
	}
	t.Logf("%d seeds: %v", *seedCount, plots)
}

// safely plays a seed and names it if the bubble finds goroutines that are left.
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

// TestAReplayIsExact plays seeds several times and compares their histories, with all
// times. Nearly all are the same. The scheduler of the runtime is not under control: when
// the machine is busy, it may interrupt a goroutine at another place.
func TestAReplayIsExact(t *testing.T) {
	differ, all := 0, 0
	for i := range uint64(*replaySeeds) {
		seed := *firstSeed + i
		first := safely(t, seed).lines
		for n := 1; n < *replays; n++ {
			all++
			if again := safely(t, seed).lines; !slices.Equal(again, first) {
				differ++
				t.Logf("replay %d of seed %d differs:\n%s", n, seed, difference(first, again))
			}
		}
	}
	t.Logf("%d of %d replays differ", differ, all)
	if differ*4 > all {
		t.Errorf("%d of %d replays differ", differ, all)
	}
}

// difference shows where two histories begin to differ.
func difference(a, b []string) string {
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	from := max(0, at-3)
	return fmt.Sprintf("%s\n  in place of\n%s",
		strings.Join(b[from:min(len(b), at+3)], "\n"), strings.Join(a[from:min(len(a), at+3)], "\n"))
}
