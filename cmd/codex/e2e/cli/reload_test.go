package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// --check-config --probe finds a backend that this machine lacks.
func TestCheckConfigProbes(t *testing.T) {
	t.Parallel()
	home, env := harness.HomeDirectory(t, nil)
	env = append(env, "PATH=/nonexistent")
	check := func(args ...string) (string, int) {
		_, errs, code := harness.RunWith(t, env, home, "", append([]string{"exec-server", "--check-config"}, args...)...)
		return errs, code
	}
	if errs, code := check("--sandbox-backend", "bwrap"); code != 0 {
		t.Errorf("without --probe: got exit code %d, stderr %s; want 0", code, errs)
	}
	if errs, code := check("--sandbox-backend", "bwrap", "--probe"); code != 1 || !strings.Contains(errs, "commands cannot be confined here: backend bwrap: ") {
		t.Errorf("with --probe: got exit code %d, stderr %s; want 1 and the reason", code, errs)
	}
	if errs, code := check("--probe"); code != 0 {
		t.Errorf("with any backend: got exit code %d, stderr %s; want 0", code, errs)
	}
}

// SIGHUP applies limits, the egress policy and the level of the log to what starts from then on. An invalid file changes
// nothing, and no SIGHUP ends the server.
func TestReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, policy, log := filepath.Join(dir, "options.toml"), filepath.Join(dir, "egress.toml"), &serverLog{}
	write := func(path, text string) { harness.Must(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(policy, "default = \"allow\"\n")
	write(file, "limit-open-files = \"100\"\nsession-ttl = \"60s\"\n")
	server, url := harness.ServerLogging(t, log, "--log-format", "json", "--config-file", file, "--egress-policy", policy)
	openFiles := func() string {
		out, errs, code := harness.Run(t, "", "remote", "run", "--url", url, "--", "sh", "-c", "ulimit -n")
		if code != 0 {
			t.Fatalf("got exit code %d, stderr %s, want 0", code, errs)
		}
		return strings.TrimSpace(out)
	}
	if got := openFiles(); got != "100" {
		t.Fatalf("at the start: got %s open files, want 100", got)
	}

	write(file, "limit-open-files = \"90\"\nsession-ttl = \"61s\"\nlog-level = \"debug\"\n")
	write(policy, "default = \"deny\"\n")
	harness.Must(t, server.Process.Signal(syscall.SIGHUP))
	record := log.await(t, "the options were read again")
	if changed, waiting := fmt.Sprint(record["changed"]), fmt.Sprint(record["need_a_restart"]); changed != "limit-open-files log-level" || waiting != "session-ttl" {
		t.Errorf("got %q as changed and %q as waiting for a restart, want limit-open-files log-level, and session-ttl", changed, waiting)
	}
	if got := openFiles(); got != "90" {
		t.Errorf("after SIGHUP: got %s open files, want 90", got)
	}
	if _, errs, code := harness.Run(t, "", "remote", "forward", "--url", url, "-W", "blocked.test:80"); code == 0 || !strings.Contains(errs, "egress policy") {
		t.Errorf("a tunnel after SIGHUP: got exit code %d, stderr %s; want one that the egress policy refuses", code, errs)
	}

	write(file, "limit-open-files = \"80\"\nno-such-option = 1\n")
	harness.Must(t, server.Process.Signal(syscall.SIGHUP))
	record = log.await(t, "the options were not read again, and the server goes on with those that it has")
	if text := fmt.Sprint(record["error"]); !strings.Contains(text, "no-such-option") {
		t.Errorf("got %q, want an error that names no-such-option", text)
	}
	if got := openFiles(); got != "90" {
		t.Errorf("after an invalid file: got %s open files, want 90", got)
	}
}
