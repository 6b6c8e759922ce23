package sandbox

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil/machine"
)

// fetchURL is a script with a function that requests a URL through the command's proxy and prints
// the status. The shell must be bash.
const fetchURL = `fetch() {
  rest=${1#http://}
  exec 3<>"/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}"
  printf 'GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$1" "${rest%%/*}" >&3
  read -r version status text <&3
  exec 3<&-
  echo "status $status"
}
`

// TestSandboxWithDomains: a local command can reach only the allowed hosts and ports, through
// codex's own proxy.
func TestSandboxWithDomains(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	workspace, beside := harness.Places(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer web.Close()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(web.URL, "http://"))
	harness.Must(t, err)
	profile := filepath.Join(beside, "profile.json")
	entries := []string{`{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}`}
	for i := range 1000 { // the profile is longer than the limit of one argument
		entries = append(entries, fmt.Sprintf(`{"path":{"type":"path","path":"/nonexistent/%090d"},"access":"read"}`, i))
	}
	harness.Must(t, os.WriteFile(profile, []byte(`{"type":"managed","file_system":{"type":"restricted","entries":[`+
		strings.Join(entries, ",")+`]},"network":"enabled"}`), 0o644))
	script := fetchURL + "fetch " + web.URL + "/; "
	const names = "getent ahostsv4 a.test | grep -m 1 -o '^198[.]1'; getent hosts b.test || echo none"
	for _, tt := range []struct {
		name    string
		options []string
		script  string
		code    int
		out     string
		errs    string // a part of the expected stderr
	}{
		{"the port", []string{"--allow-domain", "127.0.0.1:" + port}, script, 0, "status 200\n", ""},
		{"every port", []string{"--workspace-write", "--allow-domain", "127.0.0.1"}, script, 0, "status 200\n", ""},
		{"another port", []string{"--allow-domain", "127.0.0.1:1"}, script + "exit 3", 3, "status 403\n",
			"the network proxy of the command refused 127.0.0.1 port " + port + " (no --allow-domain permits it); to let the command reach them use --allow-domain 127.0.0.1:" + port},
		{"a refusal that does not matter", []string{"--allow-domain", "a.test"}, script, 0, "status 403\n", ""},
		{"nothing past the proxy", []string{"--allow-domain", "127.0.0.1"}, "exec 3<>/dev/tcp/127.0.0.1/" + port + " || exit 4", 4, "", "refused"},
		{"nothing past it with a profile that has the network", []string{"--profile-file", profile, "--allow-domain", "127.0.0.1"},
			script + "exec 3<>/dev/tcp/127.0.0.1/" + port + " || exit 4", 4, "status 200\n", "refused"},
		{"by bwrap", []string{"--backend", "bwrap", "--allow-domain", "127.0.0.1:" + port}, script, 0, "status 200\n", ""},
		{"by Landlock", []string{"--backend", "landlock", "--allow-domain", "127.0.0.1"}, script, 125, "", "cannot restrict the network to the proxies"},
		{"names, for programs that know no proxy", []string{"--allow-domain", "a.test"}, names, 0, "198.1\nnone\n", ""},
		{"names, by bwrap", []string{"--backend", "bwrap", "--allow-domain", "a.test"}, names, 0, "198.1\nnone\n", ""},
		{"a signal", []string{"--allow-domain", "a.test"}, "kill -KILL $$", 137, "", ""},
		{"the input", []string{"--allow-domain", "a.test"}, "cat", 0, "in", ""},
		{"no pattern", []string{"--allow-domain", "https://a.test"}, "true", 2, "", "unsupported domain pattern syntax"},
		{"the whole network too", []string{"--allow-domain", "a.test", "--network"}, "true", 2, "", "--network cannot be combined with --allow-domain"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if slices.Contains(tt.options, machine.Bwrap) {
				machine.NeedBackend(t, machine.Bwrap)
			}
			out, errs, code := runIn(t, workspace, "in", append(append([]string{"sandbox"}, tt.options...), "--", "bash", "-c", tt.script)...)
			if code != tt.code || out != tt.out || !strings.Contains(errs, tt.errs) || tt.errs == "" && errs != "" {
				t.Errorf("exit code %d, %q, %q", code, out, errs)
			}
		})
	}
}

// TestSandboxWithDomainsAndSignals: codex forwards signals, and an interrupt from the terminal
// arrives once. If codex is killed, no process is left.
func TestSandboxWithDomainsAndSignals(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	start := func(script string) (*exec.Cmd, *bufio.Reader) {
		cmd := exec.Command(harness.Codex, "sandbox", "--allow-domain", "a.test", "--", "sh", "-c", script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, err := cmd.StdoutPipe()
		harness.Must(t, err)
		harness.Must(t, cmd.Start())
		timer := time.AfterFunc(harness.Patience, func() { _ = cmd.Process.Kill() })
		t.Cleanup(func() {
			timer.Stop()
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		r := bufio.NewReader(out)
		if line, err := r.ReadString('\n'); line != "ready\n" {
			t.Fatalf("got line %q, error %v; want line %q", line, err, "ready\n")
		}
		return cmd, r
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1} {
		cmd, _ := start("trap 'exit 9' TERM INT HUP USR1; echo ready; while :; do sleep 0.02; done")
		harness.Must(t, cmd.Process.Signal(sig))
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 9 {
			t.Errorf("%v: exit code %d", sig, code)
		}
	}
	t.Run("on a terminal", func(t *testing.T) {
		u := harness.AtTerminal(t, "sandbox", "--allow-domain", "a.test", "--", "bash", "-c",
			`n=0; trap 'n=$((n+1)); echo caught $n' INT; echo ready; while [ $n = 0 ]; do sleep 0.02; done; read line; echo "$line after $n"`)
		u.Expect("ready")
		u.Types("\x03")
		u.Expect("caught 1")
		u.Types("typed\n")
		if rest, code := u.End(); code != 0 || !strings.Contains(rest, "typed after 1") {
			t.Errorf("exit code %d, %q", code, rest)
		}
	})
	t.Run("killed", func(t *testing.T) {
		cmd, out := start("echo ready; exec sleep 1000")
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
		harness.Must(t, err)
		harness.Must(t, cmd.Process.Kill())
		_, _ = io.ReadAll(out) // reading ends when the command has ended, which has the pipe open
		for _, text := range strings.Fields(string(children)) {
			pid, err := strconv.Atoi(text)
			harness.Must(t, err)
			harness.AwaitGone(t, pid)
		}
	})
}
