package recovery

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/leakcheck"
)

// Numbers of runs: of the stage "recovery" of .ci/run; of a test with the race detector, chosen so
// that two processors need less than 90 s; of an ordinary test; and of a test with -short.
const allRuns, raceRuns, someRuns, shortRuns = 1000, 100, 30, 20

// inProcess starts a server in the test process, so that the race detector sees both sides. It
// returns the server's address. The server ends with the test.
func inProcess(t testing.TB) string {
	t.Helper()
	srv, err := execserver.New(execserver.Options{Process: process.Options{Cgroups: true}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := srv.Serve(context.Background(), l); !errors.Is(err, execserver.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		serving.Wait()
	})
	return l.Addr().String()
}

// TestRecovery: many clients run processes through connections that are cut, stalled and refused.
// The faults must have no visible effect: every byte arrives once and in order, and every exit code
// is right. Package simulation tests the same through a rendezvous service.
func TestRecovery(t *testing.T) {
	noneLeft := leakcheck.Goroutines(t)
	t.Run("runs", func(t *testing.T) {
		runs := testutil.Rounds[uint64](shortRuns, someRuns, allRuns)
		if raceDetector {
			runs = min(runs, raceRuns)
		}
		harness.RecoverySuite(t, "TestRecovery", runs, harness.RecoverySetup{
			Target: inProcess(t), Shape: harness.RecoveryShape, Emit: harness.BuildEmit(t), Parallel: 8, Size: 1 << 20, Large: 10 << 20, Killed: []int{137},
		})
	})
	noneLeft()
}
