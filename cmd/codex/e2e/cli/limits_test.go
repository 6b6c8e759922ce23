package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// TestLimits: a client's limits are enforced with and without a sandbox, and the error
// names the limit that ended a command.
func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	_, url := harness.Server(t)
	for _, tt := range []struct {
		args      []string
		script    string
		code      int
		out, errs string
	}{
		{[]string{"--timeout", "1s"}, "sleep 600", 124, "", "--timeout 1s"},
		{[]string{"--output-limit", "4"}, "printf 12345; sleep 600", 137, "1234", "more output"},
		{[]string{"--cpu-time", "1s"}, "while :; do :; done", 152, "", "more processor time"},
		{[]string{"--open-files", "64", "--require-limits"}, "ulimit -n; ulimit -Hn; exit 3", 3, "64\n64\n", ""},
		{[]string{"--file-size", "1k"}, "cd /tmp; head -c 4096 /dev/zero | (cat > \"$(mktemp)\"); exit 0", 0, "", ""},
	} {
		for _, sandbox := range []string{"danger-full-access", "read-only"} {
			args := append([]string{"remote", "run", "--url", url, "--sandbox", sandbox}, tt.args...)
			out, errs, code := harness.Run(t, "", append(args, "--", "sh", "-c", tt.script)...)
			if code != tt.code || tt.out != "" && out != tt.out || !strings.Contains(errs, tt.errs) {
				t.Errorf("%v, %s: got exit code %d, stdout %q, stderr %q; want exit code %d, stdout %q, stderr with %q", tt.args, sandbox, code, out, errs, tt.code, tt.out, tt.errs)
			}
		}
	}
}

// TestLimitsOfServer: limits of a server, from its options or its file, apply whatever limits a
// client requests. If the client's limit is lower, that one applies.
func TestLimitsOfServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	file := filepath.Join(t.TempDir(), "options.toml")
	harness.Must(t, os.WriteFile(file, []byte("limit-open-files = \"100\"\n"), 0o600))
	_, url := harness.Server(t, "--limit-open-files", "100", "--limit-output", "8")
	_, ofFile := harness.Server(t, "--config-file", file)
	// If the launcher is a separate program, it sets the limits, otherwise codex does.
	dir := t.TempDir()
	harness.Must(t, harness.Install(dir, "codex", "codex-linux-sandbox"))
	_, ofLauncher := harness.ServerOf(t, filepath.Join(dir, "codex"), "--limit-open-files", "100")
	for _, server := range []string{url, ofFile, ofLauncher} {
		for _, tt := range []struct {
			args []string
			want string
		}{{nil, "100\n"}, {[]string{"--open-files", "4000"}, "100\n"}, {[]string{"--open-files", "70"}, "70\n"}} {
			args := append([]string{"remote", "run", "--url", server}, tt.args...)
			if out, errs, code := harness.Run(t, "", append(args, "--", "sh", "-c", "ulimit -n")...); code != 0 || out != tt.want {
				t.Errorf("%q: %d, %q, %q, want %q", args, code, out, errs, tt.want)
			}
		}
	}
	if out, errs, code := harness.Run(t, "", "remote", "run", "--url", url, "--output-limit", "1G", "--", "yes"); code != 137 || len(out) != 8 {
		t.Errorf("got exit code %d, stdout %q, stderr %q; want exit code 137, len(out) 8", code, out, errs)
	}
}

// TestResources: a command's usage includes its descendants, with and without a sandbox. It does
// not include the sandbox's launcher if that reports the end.
func TestResources(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	for _, sandbox := range []string{"danger-full-access", "read-only"} {
		out, errs, code := harness.Run(t, "", "remote", "exec", "--url", url, "--sandbox", sandbox, "--json", "--no-input", "--",
			"sh", "-c", "(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done) & wait")
		var end struct {
			Type, Cause string
			Resources   struct{ WallMs, UserMs, SystemMs, MaxRssBytes uint64 }
		}
		for line := range strings.Lines(out) {
			if strings.Contains(line, `"exited"`) {
				if err := json.Unmarshal([]byte(line), &end); err != nil {
					t.Fatal(err)
				}
			}
		}
		r := end.Resources
		if code != 0 || end.Cause != "exit" || r.UserMs == 0 || r.MaxRssBytes < 100<<10 || r.UserMs > r.WallMs*2+1000 {
			t.Errorf(`%s: got exit code %d, end %+v, stderr %q; want exit code 0, end.Cause "exit", r.UserMs other than 0, r.MaxRssBytes at least %v, r.UserMs at most %v`, sandbox, code, end, errs, 100<<10, r.WallMs*2+1000)
		}
	}
}

// TestOOMScore: when memory is short, the kernel kills commands, and helper processes of a command, before the server.
func TestOOMScore(t *testing.T) {
	t.Parallel()
	server, url := harness.Server(t)
	text, err := os.ReadFile("/proc/self/oom_score_adj") // the server has inherited this value
	if err != nil {
		t.Fatal(err)
	}
	own, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for _, sandbox := range []string{"danger-full-access", "read-only"} {
		out, errs, code := harness.Run(t, "", "remote", "run", "--url", url, "--sandbox", sandbox, "--", "cat", "/proc/self/oom_score_adj")
		if adj, err := strconv.Atoi(strings.TrimSpace(out)); err != nil || code != 0 || adj != min(max(own, 0)+500, 1000) {
			t.Errorf("%s: %q, %q, %d; the server has %d", sandbox, out, errs, code, own)
		}
	}
	// While the server forks, for example for the next launcher, it has another value.
	harness.Eventually(t, "another value of the server", func() []string {
		after, err := os.ReadFile("/proc/" + strconv.Itoa(server.Process.Pid) + "/oom_score_adj")
		if err != nil || string(after) != string(text) {
			return []string{fmt.Sprintf("%q, %v", after, err)}
		}
		return nil
	})
}
