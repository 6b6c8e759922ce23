//go:build linux

package simulation

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"codex.internal/pkg/host/process"
)

var (
	firstSeed = flag.Uint64("seed", 1, "the first seed")
	histories = flag.String("histories", "", "the file to which the histories are written")
	packets   = flag.Bool("packets", false, "add every packet to the histories")
	seedCount = flag.Int("count", defaultCount, "how many seeds are played")
)

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

// TestSeeds plays many seeds. A failure names its seed and shows its history. Of many runs a
// quarter must be complete: sessions that are lost show little.
func TestSeeds(t *testing.T) {
	plots, complete := make(map[string]int), 0
	var all strings.Builder
	for i := range *seedCount {
		seed := *firstSeed + uint64(i)
		o := safely(t, seed)
		plots[o.plot]++
		if o.complete {
			complete++
		}
		if *histories != "" {
			all.WriteString(o.history(seed))
		}
		if (i+1)%500 == 0 {
			t.Logf("%d seeds were played", i+1)
		}
		if len(o.failures) > 0 {
			t.Errorf("%s", o.history(seed))
		} else if testing.Verbose() && *seedCount == 1 {
			t.Logf("%s", o.history(seed))
		}
	}
	t.Logf("%d seeds, of which %d were complete: %v", *seedCount, complete, plots)
	if *seedCount >= defaultCount && complete < *seedCount/4 {
		t.Errorf("%d runs of %d were complete", complete, *seedCount)
	}
	if *histories == "" {
		return
	}
	if err := os.WriteFile(*histories, []byte(all.String()), 0o600); err != nil {
		t.Fatal(err)
	}
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
