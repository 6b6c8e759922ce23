//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil/faultproxy"
)

// scripts/interop runs the tests of this file, and sets these variables.
const (
	// upstreamVariable names the path of Codex CLI's binary.
	upstreamVariable = "CODEX_UPSTREAM"
	// realClientVariable names the path of the program that drives Codex CLI as a client.
	realClientVariable = "CODEX_REAL_CLIENT"
)

const (
	// upstreamRuns is lower than the number of runs with this project's server. The runs only show
	// that the client handles the other server's behaviour.
	upstreamRuns = 150

	// turns is the number of turns of Codex CLI's client that are disturbed. In each, a command
	// prints turnLines lines.
	turns, turnLines = 10, 200
)

func variable(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set; use scripts/interop", name)
	}
	return value
}

// listen starts an exec-server with an empty home and returns its address.
func listen(t *testing.T, binary string) string {
	t.Helper()
	cmd := exec.Command(binary, "exec-server", "--listen", "ws://127.0.0.1:0")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.StdoutPipe()
	harness.Must(t, err)
	harness.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "ws://")
	if err != nil || !ok {
		t.Fatalf("%s: first line %q: %v", binary, line, err)
	}
	return addr
}

// TestRecoveryWithUpstream: Codex CLI's server does not block processes, and its sessions cannot be
// taken over. So output may be lost, but then the client reports the loss.
func TestRecoveryWithUpstream(t *testing.T) {
	harness.RecoverySuite(t, t.Name(), upstreamRuns, harness.RecoverySetup{
		Target: listen(t, variable(t, upstreamVariable)), Shape: harness.RecoveryShape, Emit: harness.BuildEmit(t), Parallel: 8,
		Size: 1 << 20, Large: 10 << 20, Lossy: true,
		// The exit code differs between pipes and terminals. Sometimes the server answers before it
		// has recorded the code.
		Killed: []int{-1, 1, 137},
	})
}

// givenUp is the text that Codex CLI's client sends to the model if a connection is cut before a
// start was answered. With any server, it does not repeat a start.
const givenUp = "Failed to create unified exec process: exec-server transport disconnected"

// TestUpstreamClientRecovers: Codex CLI's client runs commands on this project's server. Its
// connections are cut, most of them while the commands print.
func TestUpstreamClientRecovers(t *testing.T) {
	target := listen(t, harness.Codex)
	var recovered, gaveUp atomic.Int32
	t.Run("turns", func(t *testing.T) {
		for seed := range uint64(turns) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				plan := faultproxy.Random(seed, faultproxy.Shape{
					Cuts: 4, Refusals: 3, First: 2600, Up: 400, Down: 10_000, Pause: 40 * time.Millisecond,
				})
				proxy, err := faultproxy.New(t.Context(), target, plan)
				harness.Must(t, err)
				defer proxy.Close()
				out, err := printing(t, "ws://"+proxy.Addr(), numberedLines("true"))
				if err == nil {
					err = allLines(out)
				}
				switch {
				case strings.Contains(out, givenUp):
					gaveUp.Add(1)
					t.Logf("the client's own doing: %s", out)
				case err != nil:
					t.Errorf("%v\n  plan: %v\n  proxy: %+v", err, plan, proxy.Stats())
				case proxy.Stats().Faults > 0:
					recovered.Add(1)
				}
			})
		}
	})
	t.Logf("%d turns: %d went through cuts unharmed, %d starts were given up by the client", turns, recovered.Load(), gaveUp.Load())
	if recovered.Load() < turns/2 {
		t.Error("too few turns went through cuts")
	}
}

// numberedLines returns a command that prints numbered lines for two seconds, runs middle halfway,
// and exits with code 3.
func numberedLines(middle string) string {
	return fmt.Sprintf(`i=0; while [ $i -lt %d ]; do i=$((i+1)); echo "<line $i>"; sleep 0.01; [ $i != %d ] || %s; done; exit 3`, turnLines, turnLines/2, middle)
}

// printing makes the client run a command, and returns the text about it that the client sends to
// the model.
func printing(t *testing.T, url, command string, env ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "python3", "testdata/printing.py", variable(t, realClientVariable), variable(t, upstreamVariable), url, command)
	cmd.Env = append(os.Environ(), env...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, errs.Bytes())
	}
	var told struct {
		Outputs []string
		Errors  []json.RawMessage
	}
	if err := json.Unmarshal(out, &told); err != nil {
		return "", fmt.Errorf("%s: %w", out, err)
	}
	if len(told.Outputs) != 1 {
		return "", fmt.Errorf("the model was told %q; errors: %s", told.Outputs, told.Errors)
	}
	return told.Outputs[0], nil
}

// allLines checks that each line exists once and in order, and that the command exited with the
// expected code.
func allLines(out string) error {
	var want strings.Builder
	for i := range turnLines {
		fmt.Fprintf(&want, "<line %d>\n", i+1)
	}
	if !strings.Contains(out, want.String()) || !strings.Contains(out, "exited with code 3") {
		return errors.New("the model was told: " + out)
	}
	return nil
}
