package cli

import (
	"bufio"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
)

// background starts two processes on the server. One ignores all signals that a process can ignore,
// and one is in its own session. It returns their process ids by name.
func background(t *testing.T, url string) map[string]int {
	t.Helper()
	cmd := exec.Command(harness.Codex, "remote", "run", "--url", url, "--", "sh", "-c", "trap '' INT TERM HUP; setsid sh -c 'echo own $$; exec sleep 1000' & echo leader $$; wait")
	out, err := cmd.StdoutPipe()
	harness.Must(t, err)
	harness.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	r := bufio.NewReader(out)
	pids := make(map[string]int)
	for range 2 {
		line, err := r.ReadString('\n')
		harness.Must(t, err)
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		pid, err := strconv.Atoi(number)
		harness.Must(t, err)
		pids[name] = pid
	}
	return pids
}

func TestSIGTERMEndsInOrder(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--no-cgroups"}} {
		cmd, url := harness.Server(t, args...)
		pids := background(t, url)
		harness.Must(t, cmd.Process.Signal(syscall.SIGTERM))
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: got error %v, want no error", args, err)
		}
		harness.AwaitGone(t, pids["own"], pids["leader"])
	}
}

func TestSIGKILLLeavesNobodyBehind(t *testing.T) {
	for _, args := range [][]string{nil, {"--no-cgroups"}} {
		cmd, url := harness.Server(t, args...)
		pids := background(t, url)
		harness.Must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		harness.AwaitGone(t, pids["leader"])
		if len(args) == 0 && haveCgroups(t) {
			harness.AwaitGone(t, pids["own"])
			continue
		}
		// Without cgroups, the watchdog does not find a process that has created its own session.
		// This limitation is documented.
		_ = syscall.Kill(pids["own"], syscall.SIGKILL)
	}
}

// haveCgroups reports whether the server can create cgroups on this machine.
func haveCgroups(t *testing.T) bool {
	t.Helper()
	_, errs, _ := harness.Run(t, `{"id":1,"method":"initialize","params":{"clientName":"x"}}
{"method":"initialized"}
{"id":2,"method":"process/start","params":{"processId":"p","argv":["true"],"cwd":"/","env":{},"tty":false}}
`, "exec-server", "--listen", "stdio")
	return !strings.Contains(errs, "no cgroups")
}

func TestStdinCanEndTheServer(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(harness.Codex, "exec-server", "--exit-on-stdin-close")
	in, err := cmd.StdinPipe()
	harness.Must(t, err)
	harness.Must(t, cmd.Start())
	harness.Must(t, in.Close())
	timer := time.AfterFunc(harness.Patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestStdioAnswersBeforeItEnds(t *testing.T) {
	t.Parallel()
	in := `{"id":1,"method":"initialize","params":{"clientName":"x"}}
{"method":"initialized"}
{"id":2,"method":"fs/getMetadata","params":{"path":"/"}}
{"id":3,"method":"nope"}`
	for range 10 {
		out, _, code := harness.Run(t, in, "exec-server", "--listen", "stdio")
		if code != 0 || strings.Count(out, "\n") != 3 || !strings.Contains(out, `"id":2`) {
			t.Fatalf("got exit code %d, stdout %s; want exit code 0, strings.Count(out, \"\\n\") 3, stdout with %q", code, out, `"id":2`)
		}
	}
}

func TestSignalsAreNormalised(t *testing.T) {
	t.Parallel()
	// The server starts with SIGINT ignored, like a background job of a script.
	cmd := exec.Command("sh", "-c", "trap '' INT; exec "+harness.Codex+" exec-server --listen stdio")
	cmd.Stdin = strings.NewReader(`{"id":1,"method":"initialize","params":{"clientName":"x"}}
{"method":"initialized"}
{"id":2,"method":"process/start","params":{"processId":"p","argv":["grep","SigIgn","/proc/self/status"],"cwd":"/","env":{"PATH":"/usr/bin:/bin"},"tty":false}}
{"id":3,"method":"process/read","params":{"processId":"p","waitMs":20000}}
`)
	out, err := cmd.Output()
	harness.Must(t, err)
	const zero = "U2lnSWduOgkwMDAwMDAwMDAwMDAwMDAwCg==" // SigIgn: 0000000000000000
	if !strings.Contains(string(out), zero) {
		t.Errorf("got %s, want a text with %q", out, zero)
	}
}
