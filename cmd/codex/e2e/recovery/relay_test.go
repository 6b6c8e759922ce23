package recovery

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/faultproxy"
	"codex.internal/pkg/testutil/leakcheck"
)

// The runs through a relay: of the stage "recovery", with the race detector, of an
// ordinary test, and of one with -short.
const allRelayRuns, raceRelayRuns, someRelayRuns, shortRelayRuns = 500, 40, 15, 10

// An executor takes a second for each return to its relay, and more when it is
// refused, so fewer of its connections are cut.
var (
	handshakeShape = faultproxy.Shape{Up: 8 << 10, Down: 8 << 10, Pause: 40 * time.Millisecond}

	harnessShape = harness.EndShape{
		Cuts: 3, Long: faultproxy.Shape{First: 16 << 10, Up: 64 << 10, Down: 2 << 20, Pause: 40 * time.Millisecond},
		Early: 1, Short: handshakeShape, Calls: true,
	}
	executorShape = harness.EndShape{
		Cuts: 2, Long: faultproxy.Shape{First: 16 << 10, Up: 2 << 20, Down: 64 << 10, Pause: 40 * time.Millisecond},
		Early: 1, Short: handshakeShape,
	}
)

// TestRelayRecovery is TestRecovery through a rendezvous service. Connections of
// either end are cut, and the service itself is killed and comes back.
func TestRelayRecovery(t *testing.T) {
	noneLeft := leakcheck.Goroutines(t)
	t.Run("runs", func(t *testing.T) {
		runs := testutil.Rounds[uint64](shortRelayRuns, someRelayRuns, allRelayRuns)
		if raceDetector {
			runs = min(runs, raceRelayRuns)
		}
		s := newRelaySetup(t)
		s.Harness, s.Executor = harnessShape, executorShape
		harness.RecoverySuite(t, "TestRelayRecovery", runs, harness.RecoverySetup{
			Routes: s.Routes, Emit: harness.BuildEmit(t), Parallel: 10, Pulsed: true, Size: 1 << 20, Large: 10 << 20, Killed: []int{137},
		})
	})
	noneLeft()
}

// newRelaySetup makes what relays and the executors of the test need. No
// connection is cut.
func newRelaySetup(t testing.TB) *harness.RelaySetup {
	t.Helper()
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.json")
	return &harness.RelaySetup{
		Tokens: tokens, Token: newToken(t, tokens, harness.RelayEnvironment), Dir: dir, InProcess: harness.ExecutorInProcess(executionServer(t)),
	}
}

// newToken makes a token for both ends of an environment.
func newToken(t testing.TB, tokens, environment string) string {
	t.Helper()
	create := exec.Command(harness.Codex, "rendezvous", "token", "create", "--tokens", tokens, "--role", "both", "--environment", environment)
	token, err := create.Output()
	if err != nil {
		t.Fatalf("%v: %v", create, err)
	}
	return strings.TrimSpace(string(token))
}

// executionServer returns a server that ends with the test. Who uses it brings
// the connections.
func executionServer(t testing.TB) *execserver.Server {
	t.Helper()
	srv, err := execserver.New(execserver.Options{Process: process.Options{Cgroups: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	return srv
}
