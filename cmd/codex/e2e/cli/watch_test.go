package cli

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
)

// lines starts a command and returns a function that reads the next line of its output. The command
// is killed at the end of the test, and if no line arrives in time.
func lines(t *testing.T, args ...string) func() string {
	t.Helper()
	return linesWith(t, nil, args...)
}

// linesWith is lines with an environment. If env is nil, the command gets the environment of the test.
func linesWith(t *testing.T, env []string, args ...string) func() string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, harness.Codex, args...)
	cmd.Env = env
	cmd.Stderr = harness.ShownOnFailure(t)
	out, err := cmd.StdoutPipe()
	harness.Must(t, err)
	harness.Must(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
	scanner := bufio.NewScanner(out)
	return func() string {
		t.Helper()
		defer time.AfterFunc(harness.Patience, cancel).Stop()
		if !scanner.Scan() {
			t.Fatalf("%q ended: %v", args, scanner.Err())
		}
		return scanner.Text()
	}
}

// awaitWatch writes a file repeatedly until the watch reports it. From then on the watch reports
// every change.
func awaitWatch(t *testing.T, dir string, next func() string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for ctx.Err() == nil {
			if err := os.WriteFile(filepath.Join(dir, "begin"), nil, 0o644); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	defer func() {
		stop()
		writer.Wait()
	}()
	next()
}

func TestRemoteWatch(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	harness.Must(t, err)
	next := lines(t, "remote", "watch", dir, "--url", url, "--exclude", "*.tmp")
	awaitWatch(t, dir, next)
	harness.Must(t, os.WriteFile(filepath.Join(dir, "x.tmp"), nil, 0o644))
	harness.Must(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o755))
	harness.Must(t, os.WriteFile(filepath.Join(dir, "a/b/c"), nil, 0o644))
	for _, want := range []string{"created    " + dir + "/a/", "created    " + dir + "/a/b/", "created    " + dir + "/a/b/c"} {
		got := next()
		for strings.HasSuffix(got, "/begin") {
			got = next()
		}
		if got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	out, errs, code := harness.Run(t, "", "remote", "watch", "--url", url, dir+"/none")
	if want := "Error: watch " + dir + "/none: no such file or directory\n"; code != 1 || out != "" || !strings.EqualFold(errs, want) {
		t.Errorf("%d %q %q, want %q", code, out, errs, want)
	}
}

// TestRemoteWatchRuns: the command runs at once and after each change, whatever its exit
// code is.
func TestRemoteWatchRuns(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	dir := t.TempDir()
	next := lines(t, "remote", "watch", "--url", url, dir, "--cwd", dir, "--", "sh", "-c", "echo $(ls); exit 3")
	if got := next(); got != "" {
		t.Errorf("the first run found %q", got)
	}
	harness.Must(t, os.WriteFile(filepath.Join(dir, "a"), nil, 0o644))
	if got := next(); got != "a" {
		t.Errorf("the second run found %q", got)
	}
	harness.Must(t, os.Remove(filepath.Join(dir, "a")))
	if got := next(); got != "" {
		t.Errorf("the third run found %q", got)
	}
}
