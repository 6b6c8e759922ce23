package harness

import (
	"flag"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/faultproxy"
)

var (
	recoverySeed = flag.Uint64("recovery.seed", 0, "make only the run of this seed")
	recoveryRuns = flag.Uint64("recovery.runs", 0, "make the runs of the seeds 1 to this; 0: as many as fit")
)

// mostFailures is the number of failed runs after which no further runs are made.
const mostFailures = 3

// BuildEmit builds emit, the program whose output the runs check.
func BuildEmit(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "emit")
	if err := testutil.Build(path, Repository+"/cmd/codex/e2e/harness/testdata/emit"); err != nil {
		t.Fatal(err)
	}
	return path
}

// RecoveryShape describes the connections of most runs.
var RecoveryShape = faultproxy.Shape{
	Cuts: 6, Refusals: 2, First: 4096, Up: 64 << 10, Down: 2 << 20, Pause: 40 * time.Millisecond,
}

// RecoverySuite makes a number of runs with the seeds from 1 on, or with the seeds that the flags
// select. Several runs are made at a time.
func RecoverySuite(t *testing.T, name string, runs uint64, setup RecoverySetup) {
	first := uint64(1)
	switch {
	case *recoverySeed > 0:
		first, runs = *recoverySeed, *recoverySeed
	case *recoveryRuns > 0:
		runs = *recoveryRuns
	}
	began := time.Now()
	var next atomic.Uint64
	next.Store(first - 1)
	var sum tally
	var wg sync.WaitGroup
	for range setup.Parallel * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := next.Add(1); seed <= runs && sum.failures() < mostFailures; seed = next.Add(1) {
				r := &recoveryRun{RecoverySetup: setup, seed: seed}
				err := r.do(t.Context())
				sum.add(r, err)
				if err != nil {
					t.Errorf("seed %d: %v  replay: go test -run '^%s$' ./cmd/codex/e2e/... -recovery.seed=%d", seed, err, name, seed)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%v, in %v", &sum, time.Since(began).Round(time.Millisecond))
	if sum.runs > 10 && (sum.faults < sum.runs || sum.recoveries < int64(sum.runs)/2) {
		t.Errorf("too little happened: %v", &sum)
	}
}

// tally sums the results of runs.
type tally struct {
	mu                         sync.Mutex
	runs, failed, faults       int
	stalls, refused, processes int
	recoveries, losses, ends   int64
	bytes                      int64
	slowest                    time.Duration
}

func (s *tally) add(r *recoveryRun, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	if err != nil {
		s.failed++
	}
	if r.proxy != nil {
		p := r.proxy.Stats()
		s.faults += p.Faults
		s.stalls += p.Stalls
		s.refused += p.Refused
		s.bytes += p.Up + p.Down
	}
	s.processes += len(r.jobs)
	s.recoveries += r.recoveries.Load()
	s.losses += r.losses.Load()
	s.ends += r.ends.Load()
	s.slowest = max(s.slowest, time.Duration(r.slowest.Load()))
}

func (s *tally) failures() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

func (s *tally) String() string {
	return fmt.Sprintf("%d runs, %d failed: %d processes, %d connections cut, %d refused, %d stalls, %d recoveries "+
		"(the slowest took %v), %d losses told, %d ends of terminals lost, %d MB passed",
		s.runs, s.failed, s.processes, s.faults, s.refused, s.stalls, s.recoveries, s.slowest.Round(time.Millisecond), s.losses, s.ends, s.bytes/1e6)
}
