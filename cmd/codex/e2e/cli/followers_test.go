package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
)

// follower is codex remote that runs beside the test.
type follower struct {
	cmd       *exec.Cmd
	out, errs harness.Tail
}

// begin starts codex remote.
func begin(t *testing.T, args ...string) *follower {
	t.Helper()
	b := &follower{cmd: exec.Command(harness.Codex, append([]string{"remote"}, args...)...)}
	b.cmd.Stdout, b.cmd.Stderr = &b.out, &b.errs
	harness.Must(t, b.cmd.Start())
	t.Cleanup(func() {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
	})
	return b
}

// end waits for the end of the program.
func (b *follower) end() (stdout, stderr string, code int) {
	timer := time.AfterFunc(harness.Patience, func() { _ = b.cmd.Process.Kill() })
	defer timer.Stop()
	_ = b.cmd.Wait()
	return b.out.String(), b.errs.String(), b.cmd.ProcessState.ExitCode()
}

// printed waits until a text contains another.
func printed(t *testing.T, what string, text fmt.Stringer, want string) {
	t.Helper()
	testutil.Eventually(t.Context(), t, what, func() (string, bool) { return text.String(), strings.Contains(text.String(), want) })
}

// answeredReads matches the number of answered requests for the output or the state of a process.
var answeredReads = regexp.MustCompile(`(?m)^exec_server_requests_total\{method="process/read",result="ok"\} (\d+)$`)

// TestFollowersSurviveTheServer: while logs -f and wait follow a process, its server is killed, or ends in order, and the
// next one starts. Both connect again: logs has printed each line once, and wait exits with the code of the process.
func TestFollowersSurviveTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "terminated": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDetaching(t)
			proxy, url := harness.ThroughProxy(t, d.url)
			gate := filepath.Join(t.TempDir(), "gate")
			d.must("run", "--detach", "--name", "long", "--", "sh", "-c",
				"echo first; while ! [ -e "+gate+" ]; do sleep 0.01; done; echo second; echo third >&2; exit 7")

			wait := begin(t, "wait", "--url", url, "long")
			testutil.Eventually(t.Context(), t, "wait has got the state of the process", func() (string, bool) {
				text := metricsOf(t, "http"+strings.TrimPrefix(d.url, "ws")+"/metrics")
				m := answeredReads.FindStringSubmatch(text)
				if m == nil {
					return "no read", false
				}
				n, err := strconv.Atoi(m[1])
				return m[1] + " reads", err == nil && n >= 2 // it sends the second after it has seen the answer of the first
			})
			logs := begin(t, "logs", "--follow", "--url", url, "long")
			printed(t, "the first line", &logs.out, "first\n")

			proxy.SetTarget("127.0.0.1:1") // this port refuses connections
			d.end(sig)
			printed(t, "logs notes the loss", &logs.errs, "connecting again until Ctrl-C")
			printed(t, "wait notes the loss", &wait.errs, "connecting again until Ctrl-C")
			d.start()
			proxy.SetTarget(harness.Address(d.url))
			harness.Must(t, os.WriteFile(gate, nil, 0o600))

			if out, errs, code := logs.end(); code != 0 || out != "first\nsecond\n" || !strings.HasSuffix(errs, "third\n") {
				t.Errorf("logs: got code %d, stdout %q, stderr %q; want 0, both lines once, and the third at the end", code, out, errs)
			}
			if out, errs, code := wait.end(); code != 7 || out != "" {
				t.Errorf("wait: got code %d, stdout %q, stderr %q; want 7 and no output", code, out, errs)
			}
		})
	}
}

// TestFollowersOfNothing: a process that does not exist, and a server that cannot be reached, end logs -f and wait at once.
func TestFollowersOfNothing(t *testing.T) {
	t.Parallel()
	d := newDetaching(t)
	for _, args := range [][]string{{"logs", "-f"}, {"wait"}} {
		if _, errs, code := d.run(args[0], append(args[1:], "nosuch")...); code != 1 || !strings.Contains(errs, "no such detached process") {
			t.Errorf("%q: got code %d, %s; want 1", args, code, errs)
		}
		full := append(append([]string{"remote"}, args...), "--url", "ws://127.0.0.1:1", "x")
		if _, errs, code := harness.Run(t, "", full...); code != 255 {
			t.Errorf("%q without a server: got code %d, %s; want 255", args, code, errs)
		}
	}
}

// TestLogsFromTheEnd: --tail begins with the last lines, and with --follow continues behind them.
func TestLogsFromTheEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	d := newDetaching(t)
	gate := filepath.Join(t.TempDir(), "gate")
	d.must("run", "-d", "--name", "job", "--", "sh", "-c", "seq 100000; while ! [ -e "+gate+" ]; do sleep 0.01; done; echo new; printf end")
	testutil.Eventually(t.Context(), t, "the output", func() (string, bool) {
		out := d.must("logs", "job")
		return fmt.Sprint(len(out), " bytes"), strings.HasSuffix(out, "\n100000\n")
	})
	for lines, want := range map[string]string{"0": "", "1": "100000\n", "3": "99998\n99999\n100000\n"} {
		if out := d.must("logs", "--tail", lines, "job"); out != want {
			t.Errorf("--tail %s: got %q, want %q", lines, out, want)
		}
	}
	follow := begin(t, "logs", "-n", "2", "-f", "--url", d.url, "job")
	printed(t, "the last lines", &follow.out, "100000\n")
	harness.Must(t, os.WriteFile(gate, nil, 0o600))
	if out, errs, code := follow.end(); code != 0 || out != "99999\n100000\nnew\nend" {
		t.Errorf("-n 2 -f: got code %d, stdout %q, stderr %q; want 0 and the last two lines, and the new ones", code, out, errs)
	}
	if out := d.must("logs", "--tail", "2", "job"); out != "new\nend" {
		t.Errorf("--tail 2: got %q, want a last line without an end to count", out)
	}
}

// TestLogsSince: --since leaves out older output, also with --follow.
func TestLogsSince(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	d := newDetaching(t)
	gate := filepath.Join(t.TempDir(), "gate")
	d.must("run", "-d", "--name", "job", "--", "sh", "-c", "echo old; while ! [ -e "+gate+" ]; do sleep 0.01; done; echo new")
	testutil.Eventually(t.Context(), t, "the old output", func() (string, bool) {
		out := d.must("logs", "job")
		return out, out == "old\n"
	})
	// Times are compared to a second: the new output is written at least a second after since.
	since := time.Now().Add(time.Second)
	follow := begin(t, "logs", "-f", "--since", since.Format(time.RFC3339Nano), "--url", d.url, "job")
	testutil.Eventually(t.Context(), t, "a later second", func() (string, bool) {
		return time.Until(since).String(), time.Since(since) >= time.Second
	})
	harness.Must(t, os.WriteFile(gate, nil, 0o600))
	if out, errs, code := follow.end(); code != 0 || out != "new\n" {
		t.Errorf("-f --since: got code %d, stdout %q, stderr %q; want 0 and the new line", code, out, errs)
	}
	for value, want := range map[string]string{
		since.UTC().Format(time.RFC3339Nano): "new\n", "1h": "old\nnew\n", time.Now().Add(time.Hour).Format(time.RFC3339): "",
	} {
		if out := d.must("logs", "--since", value, "job"); out != want {
			t.Errorf("--since %s: got %q, want %q", value, out, want)
		}
	}
	if _, errs, code := d.run("logs", "--since", "yesterday", "job"); code != 2 || !strings.Contains(errs, "expected a duration such as 10m") {
		t.Errorf("--since yesterday: got code %d, %s; want 2", code, errs)
	}
}

// TestStop: a process that obeys TERM ends by itself, one that ignores it is killed after --timeout, and one that has ended is
// no error.
func TestStop(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	d := newDetaching(t)
	ready := func(name, script string) {
		t.Helper()
		d.must("run", "-d", "--name", name, "--", "sh", "-c", script)
		testutil.Eventually(t.Context(), t, name+" is ready", func() (string, bool) {
			out := d.must("logs", name)
			return out, out == "ready\n"
		})
	}
	const forever = "; while :; do sleep 0.01; done"
	ready("obeys", `trap 'exit 5' TERM; echo ready`+forever)
	ready("ignores", `trap '' TERM; echo ready`+forever)
	ready("nine", "echo ready"+forever)
	ready("term", "echo ready"+forever)
	for _, tt := range []struct {
		args   []string
		status string
	}{
		{[]string{"stop", "obeys"}, "exited 5"},
		{[]string{"stop", "obeys"}, "exited 5"}, // again
		{[]string{"stop", "-t", "10ms", "ignores"}, "exited 137"},
		{[]string{"kill", "-9", "nine"}, "exited 137"},
		{[]string{"kill", "-TERM", "term"}, "exited 143"},
	} {
		d.must(tt.args[0], tt.args[1:]...)
		name := tt.args[len(tt.args)-1]
		testutil.Eventually(t.Context(), t, fmt.Sprintf("%q: %s", tt.args, tt.status), func() (string, bool) {
			got := d.status(name)
			return got, got == tt.status
		})
	}
	if _, errs, code := d.run("stop", "nosuch"); code != 1 || !strings.Contains(errs, "you have no such process") {
		t.Errorf("stop nosuch: got code %d, %s; want 1", code, errs)
	}

	// The process of a session, by the id that ps shows.
	client := begin(t, "run", "--url", d.url, "--", "sh", "-c", "echo ready; exec sleep 1000")
	printed(t, "the command runs", &client.out, "ready\n")
	var listed struct{ ProcessID string }
	for line := range bytes.Lines([]byte(d.must("ps", "--all", "--json"))) {
		if bytes.Contains(line, []byte("exec sleep 1000")) {
			harness.Must(t, json.Unmarshal(line, &listed))
		}
	}
	if listed.ProcessID == "" {
		t.Fatalf("ps --all --json: got\n%s\nwant the command of the session", d.must("ps", "--all", "--json"))
	}
	d.must("stop", listed.ProcessID)
	if _, errs, code := client.end(); code != 143 {
		t.Errorf("the client of the stopped command: got code %d, %s; want 143", code, errs)
	}
}
