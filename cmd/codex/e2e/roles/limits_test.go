package roles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/testutil"
)

// sleepers numbers the sleep times of processes, so that tests can find their own processes.
var sleepers atomic.Int64

// sleeper returns a command that no other test runs. sleepersOf returns the processes of such a command.
func sleeper() string {
	return fmt.Sprintf("sleep %d.%d", 100_000+os.Getpid()%100_000, sleepers.Add(1))
}

func sleepersOf(command string) (pids []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err == nil && strings.ReplaceAll(strings.TrimSuffix(string(text), "\x00"), "\x00", " ") == command {
			pids = append(pids, strings.Split(name, "/")[2])
		}
	}
	return pids
}

// daemon changes a shell script so that it leaves its session and its parent. Without a sandbox and
// cgroups, the server finds such a process only when it ends itself (docs/operations.md). In that
// case the script leaves only the session.
func (w *world) daemon(sandbox object, script string) string {
	if sandbox == nil && !w.hasCgroups() {
		return "setsid sh -c '" + script + "' &"
	}
	return "(setsid sh -c '(" + script + ") &' &);"
}

// hasCgroups reports whether the server's user may create cgroups.
func (w *world) hasCgroups() bool {
	w.t.Helper()
	out, err := w.command("doctor", "--json").Output()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		w.t.Fatal(err)
	}
	var host struct {
		Checks []struct{ Name, Status string }
	}
	harness.Must(w.t, json.Unmarshal(out, &host))
	for _, c := range host.Checks {
		if c.Name == "cgroup" {
			return c.Status == "ok"
		}
	}
	w.t.Fatalf("codex doctor says nothing of cgroups: %s", out)
	return false
}

// limitCase is a process whose descendant reaches a limit of the token. The limit is lower than the
// requested one.
type limitCase struct {
	name   string
	script string
	cause  execproto.Cause
	out    string // "": any output
}

// limitCases returns processes with a descendant that has left its session and its parent. command
// is the sleeper for that descendant.
func (w *world) limitCases(sandbox object, command string) []limitCase {
	file := fmt.Sprint(w.ws, "/sub/big", sandbox == nil)
	return []limitCase{
		{"time", w.daemon(sandbox, command) + " " + command, execproto.CauseTimeout, ""},
		{"output", w.daemon(sandbox, "yes; "+command) + w.daemon(sandbox, command) + " sleep 1000", execproto.CauseOutput, ""},
		{"processor time", "while :; do :; done", execproto.CauseCPU, ""},
		{"processor time of a descendant", "setsid sh -c 'while :; do :; done' > /dev/null 2>&1; echo $?", execproto.CauseExit, "152\n"},
		{"open files", "setsid sh -c 'ulimit -n 4096 2>/dev/null; ulimit -n; ulimit -Hn'", execproto.CauseExit, "64\n64\n"},
		{"file size", "setsid sh -c 'head -c 200000 /dev/zero > " + file + "; exit 0' 2>/dev/null; stat -c %s " + file + "; rm " + file, execproto.CauseExit, "65536\n"},
	}
}

// TestLimitsOfTokens: a token's limits apply to a process with all its descendants, whatever its
// client requests, with and without a sandbox, detached or not.
func TestLimitsOfTokens(t *testing.T) {
	someWorld(t, func(w *world) {
		limits := []string{"--role", "run", "--limit-output", "64K", "--limit-open-files", "64", "--limit-file-size", "64K"}
		timed, worked := w.token(append(limits, "--limit-time", "2s")...), w.token(append(limits, "--limit-cpu-time", "1s")...)
		w.serve()
		clients := map[string]*execclient.Client{"time": w.client(timed), "": w.client(worked)}
		var wg sync.WaitGroup // the processes mostly wait, so run them at the same time
		var commands []string
		count := len(w.limitCases(nil, ""))
		for sandboxed, cases := range testutil.Pairs(w.t.Name(), []bool{false, true}, numbers(count)) {
			var sandbox object
			if sandboxed {
				sandbox = managed(at(w.ws, "write"))
			}
			commands = append(commands, sleeper())
			for _, i := range cases {
				tt := w.limitCases(sandbox, commands[len(commands)-1])[i]
				c := clients[tt.name]
				if c == nil {
					c = clients[""]
				}
				p := w.params(fmt.Sprint("p", i, sandbox == nil), sandbox, tt.script)
				p.Limits = &execproto.ProcessLimits{WallMS: 1 << 40, OutputBytes: 1 << 40, CPUSeconds: 1 << 40, OpenFiles: 1 << 20, FileBytes: 1 << 40}
				wg.Go(func() { w.limited(c, p, tt) })
			}
		}
		wg.Wait()
		for _, command := range commands {
			harness.Eventually(w.t, "descendants", func() []string { return sleepersOf(command) })
		}
	})
}

// numbers returns the numbers from 0 to n-1.
func numbers(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// limited runs a process whose limit is reached.
func (w *world) limited(c *execclient.Client, params execproto.StartParams, tt limitCase) {
	p, err := c.Start(w.t.Context(), params)
	if err != nil {
		w.t.Errorf("%s: got error %v, want no error", tt.name, err)
		return
	}
	defer p.Release()
	var out bytes.Buffer
	end, err := p.Stream(w.t.Context(), &out, &out)
	if err != nil || end.Cause != tt.cause || tt.out != "" && out.String() != tt.out {
		w.t.Errorf("%s, %s: %+v, %v, %.200q, want %s, %q", tt.name, p.SandboxType(), end, err, out.String(), tt.cause, tt.out)
	}
	if r := end.Resources; tt.cause == execproto.CauseCPU && r != nil && r.UserMS+r.SystemMS < 500 {
		w.t.Errorf("%s, %s: %+v were used of a second", tt.name, p.SandboxType(), r)
	}
	if out.Len() > 64<<10 {
		w.t.Errorf("%s: there are %d bytes of output", tt.name, out.Len())
	}
}
