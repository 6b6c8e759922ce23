//go:build linux && simulation

package simulation

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "unsafe" // for go:linkname
)

var replaySeeds = flag.Int("replay-seeds", 20, "how many seeds TestAReplayIsExact plays twice")

// simulate and simulateJump are those of testdata/runtime.
//
//go:linkname simulate runtime.simulate
func simulate(on bool, seed uint64)

//go:linkname simulateJump runtime.simulateJump
func simulateJump(by int64)

// TestAReplayIsExact plays seeds in a new process and then, the last first, in this one, beside
// processes that take all the time of the processors they can get. Each history must be
// the same, with the moment of every event and every byte of all connections.
func TestAReplayIsExact(t *testing.T) {
	beBusy(t)
	first := strings.SplitAfter(playedApart(t, *firstSeed, *replaySeeds), endOfHistory)
	if len(first) != *replaySeeds+1 {
		t.Fatalf("there are %d histories of %d seeds", len(first)-1, *replaySeeds)
	}
	differ := 0
	for i := *replaySeeds - 1; i >= 0; i-- {
		seed := *firstSeed + uint64(i)
		if again := safely(t, seed).history(seed); again != first[i] {
			differ++
			t.Errorf("seed %d differs:\n%s", seed, difference(strings.Split(first[i], "\n"), strings.Split(again, "\n")))
		}
	}
	t.Logf("%d of %d replays differ", differ, *replaySeeds)
}

// playedApart returns the histories that another process writes.
func playedApart(t *testing.T, first uint64, count int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "histories")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSeeds$", "-seed", strconv.FormatUint(first, 10),
		"-count", strconv.Itoa(count), "-histories", file, "-packets="+strconv.FormatBool(*packets))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the other process: %v\n%s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// beBusy keeps all processors busy until the test ends.
func beBusy(t *testing.T) {
	for range 2 * runtime.NumCPU() {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
		cmd.WaitDelay = time.Second
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test ends before
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
