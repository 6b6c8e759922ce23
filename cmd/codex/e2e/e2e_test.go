//go:build linux

// Package e2e tests the real binary from outside: its arguments, its signals
// and what it leaves behind.
package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	// What the binary is made of, so that a cached result is not taken for
	// another binary's.
	_ "codex.internal/cmd/codex/cli"
	"github.com/creack/pty"
)

// patience is how long tests wait for what must come.
const patience = 30 * time.Second

// testVariables are those of the environment that are for tests.
var testVariables = []string{"CODEX_E2E_CONTAINER", "CODEX_REFERENCE", "CODEX_REAL_CLIENT", "CODEX_TEST_CACHE"}

// codex is the binary under test, built once.
var codex string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "e2e")
	if err != nil {
		panic(err)
	}
	// What this machine's user has configured is not to be seen, nor written to.
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "CODEX_") && !slices.Contains(testVariables, name) {
			_ = os.Unsetenv(name) // the name is a good one
		}
	}
	if err := os.Setenv("CODEX_HOME", dir); err != nil {
		panic(err)
	}
	codex = filepath.Join(dir, "codex")
	// The program that ships: scripts/install builds it so, too.
	build := exec.Command("bash", "-euc", `. ../../../scripts/lib.sh; build "$1" codex`, "build", dir)
	build.Stderr = os.Stderr
	code := 1
	if err := build.Run(); err == nil {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// server starts a server and returns it with its URL.
func server(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(codex, append([]string{"exec-server", "--listen", "ws://127.0.0.1:0"}, args...)...)
	cmd.Stderr = shownOnFailure(t)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "ws://127.0.0.1:") {
		t.Fatalf("first line %q: %v", line, err)
	}
	return cmd, strings.TrimSpace(line)
}

// maxShown bounds what is kept of a server's log: the end of it says what went
// wrong.
const maxShown = 64 << 10

// shownOnFailure returns a writer for the log of a server. The end of the log is
// shown if the test fails.
func shownOnFailure(t *testing.T) io.Writer {
	t.Helper()
	w := &lastWritten{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the server's log:\n%s", w.text())
		}
	})
	return w
}

// lastWritten keeps the last maxShown bytes that were written to it.
type lastWritten struct {
	mu   sync.Mutex
	kept []byte
}

func (w *lastWritten) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, b...)
	w.kept = w.kept[max(0, len(w.kept)-maxShown):]
	return len(b), nil
}

func (w *lastWritten) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.kept)
}

// run runs codex to its end.
func run(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(codex, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func TestCommandLine(t *testing.T) {
	for _, tt := range []struct {
		args []string
		code int
		want string // in stdout or stderr
	}{
		{[]string{"--version"}, 0, "codex "},
		{nil, 0, "codex exec-server"},
		{[]string{"exec-server", "--help"}, 0, "--ws-token-file"},
		{[]string{"remote", "cp", "--help"}, 0, "codex remote cp -r ./src :~/project"},
		{[]string{"exec-servr"}, 2, "exec-servr"},
		{[]string{"exec-server", "--lisen", "x"}, 2, "unknown flag --lisen"},
		{[]string{"exec-server", "stray"}, 2, "stray"},
		{[]string{"exec-server", "--listen", "http://x"}, 1, "Error: unsupported --listen URL `http://x`; expected `ws://IP:PORT` or `stdio`"},
		{[]string{"exec-server", "--listen", "ws://0.0.0.0:0"}, 1, "--ws-auth"},
		{[]string{"exec-server", "--session-ttl", "-1s"}, 2, "--session-ttl"},
		{[]string{"exec-server", "--log-level", "loud"}, 2, "--log-level"},
		{[]string{"exec-server", "--ws-auth", "capability-token"}, 1, "--ws-token-file"},
		{[]string{"exec-server", "--ws-auth", ""}, 2, "--ws-auth must not be empty"},
		{[]string{"exec-server", "--sandbox-backend", "chroot"}, 2, "namespaces, bwrap, landlock"},
		{[]string{"exec-server", "--remote", "http://x"}, 2, "--environment-id"},
		{[]string{"remote", "run"}, 2, "needs a command"},
		{[]string{"remote", "run", "--url", "ws://127.0.0.1:1", "--", "true"}, 255, "is the server running"},
		{[]string{"remote", "run", "--url", "http://x", "--", "true"}, 255, "expected ws://HOST:PORT"},
		{[]string{"remote", "cp", "a", "b"}, 2, "colon"},
		{[]string{"completion", "bash"}, 0, "complete -o"},
		{[]string{"completion", "tcsh"}, 2, "bash, zsh or fish"},
	} {
		out, errs, code := run(t, "", tt.args...)
		if code != tt.code || !strings.Contains(out+errs, tt.want) {
			t.Errorf("codex %q: exit code %d, %q, %q", tt.args, code, out, errs)
		}
	}
}

func TestNamesDecide(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{"codex-fs": "fs sandbox helper failed", "codex-linux-sandbox": "--permission-profile"} {
		link := filepath.Join(dir, name)
		if err := os.Symlink(codex, link); err != nil {
			t.Fatal(err)
		}
		if out, _ := exec.Command(link, "--help").CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("%s: %s", name, out)
		}
	}
	if _, errs, code := run(t, "", "--codex-run-as-fs-helper"); code != 1 || !strings.Contains(errs, "fs sandbox helper") {
		t.Errorf("as helper: %d %q", code, errs)
	}
}

func TestRemoteRun(t *testing.T) {
	_, url := server(t)
	out, errs, code := run(t, "in\n", "remote", "run", "--url", url, "--cwd", "/", "--env", "A=b c", "--env-var", "B=d,e", "--", "sh", "-c", `cat; pwd; echo "$A$B"; echo err >&2; exit 7`)
	if out != "in\n/\nb cd,e\n" || errs != "err\n" || code != 7 {
		t.Errorf("%q, %q, %d", out, errs, code)
	}
	out, _, code = run(t, "", "remote", "run", "--url", url, "--", "head", "-c", "20000000", "/dev/zero")
	if len(out) != 20_000_000 || code != 0 {
		t.Errorf("%d bytes, %d", len(out), code)
	}
	if _, errs, code := run(t, "", "remote", "run", "--url", url, "--", "no-such-program"); code != 127 || !strings.Contains(errs, "no-such-program") {
		t.Errorf("%q %d", errs, code)
	}
	if out, _, code := run(t, "", "remote", "info", "--url", url); code != 0 || !strings.Contains(out, "shell") {
		t.Errorf("%q %d", out, code)
	}
}

func TestRemoteRunOnATerminal(t *testing.T) {
	_, url := server(t)
	cmd := exec.Command(codex, "remote", "run", "--url", url, "--tty", "--", "sh", "-c", `stty size; trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.02; done`)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 31, Cols: 97})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	r := bufio.NewReader(tty)
	expect := func(want string) {
		t.Helper()
		for {
			line, err := r.ReadString('\n')
			if strings.TrimSpace(line) == want {
				return
			}
			if err != nil {
				t.Fatalf("no %q: %v", want, err)
			}
		}
	}
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	expect("31 97")
	expect("ready")
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	expect("40 120")
	_, _ = io.Copy(io.Discard, r)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 5 {
		t.Errorf("exit code %d", code)
	}
}

func TestRemoteFiles(t *testing.T) {
	_, url := server(t)
	dir := t.TempDir()
	blob := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	must(t, os.MkdirAll(filepath.Join(dir, "src", "sub"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "src", "blob"), blob, 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "src", "sub", "small é"), []byte("x"), 0o644))
	if _, errs, code := run(t, "", "remote", "cp", "--url", url, "-r", filepath.Join(dir, "src"), ":"+filepath.Join(dir, "there")); code != 0 {
		t.Fatalf("there: %s", errs)
	}
	if _, errs, code := run(t, "", "remote", "cp", "--url", url, "-r", ":"+filepath.Join(dir, "there"), filepath.Join(dir, "back")); code != 0 {
		t.Fatalf("back: %s", errs)
	}
	if out, err := exec.Command("diff", "-r", filepath.Join(dir, "src"), filepath.Join(dir, "back")).CombinedOutput(); err != nil {
		t.Errorf("%s", out)
	}
	if out, _, _ := run(t, "", "remote", "cat", "--url", url, filepath.Join(dir, "there", "blob")); out != string(blob) {
		t.Errorf("cat gave %d bytes", len(out))
	}
	if out, _, _ := run(t, "", "remote", "ls", "--url", url, filepath.Join(dir, "there")); out != "blob\nsub/\n" {
		t.Errorf("ls gave %q", out)
	}
	if out, _, _ := run(t, "", "remote", "ls", "--url", url, ":"+filepath.Join(dir, "there")); out != "blob\nsub/\n" {
		t.Errorf("ls with a colon gave %q", out)
	}
	small := filepath.Join(dir, "src", "sub", "small é")
	for _, tt := range []struct {
		args []string
		want string // how the error begins
	}{
		{[]string{"cp", "--url", url, ":/none/such", dir}, "copy :/none/such: no such file or directory\n"},
		{[]string{"cp", "--url", url, ":" + small, filepath.Join(dir, "none", "f")}, "copy :" + small + ": the target's directory " + filepath.Join(dir, "none") + ": no such file or directory\n"},
		{[]string{"cp", "--url", url, "-r", ":" + dir, filepath.Join(small, "d")}, "copy :" + dir + ": the target's directory " + small + ": not a directory\n"},
		{[]string{"cp", "--url", url, small, ":/none/such/f"}, "copy " + small + ": /none/such/f: no such file or directory\n"},
		{[]string{"ls", "--url", url, "/none/such"}, "/none/such: no such file or directory\n"},
		{[]string{"cat", "--url", url, "/none/such"}, "/none/such: no such file or directory\n"},
	} {
		if out, errs, code := run(t, "", append([]string{"remote"}, tt.args...)...); code != 1 || out != "" || !strings.HasPrefix(errs, "Error: "+tt.want) || strings.Contains(errs, "file://") {
			t.Errorf("%q: %d %q, %q", tt.args, code, out, errs)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// background starts a process on the server that ignores what it can, and
// one in a session of its own; it returns their pids by name.
func background(t *testing.T, url string) map[string]int {
	t.Helper()
	cmd := exec.Command(codex, "remote", "run", "--url", url, "--", "sh", "-c", "trap '' INT TERM HUP; setsid sh -c 'echo own $$; exec sleep 1000' & echo leader $$; wait")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	r := bufio.NewReader(out)
	pids := make(map[string]int)
	for range 2 {
		line, err := r.ReadString('\n')
		must(t, err)
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		pid, err := strconv.Atoi(number)
		must(t, err)
		pids[name] = pid
	}
	return pids
}

func awaitGone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		for deadline := time.Now().Add(patience); ; {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil || strings.Contains(string(text), ") Z ") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("process %d is still there: %s", pid, text)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func TestSIGTERMEndsInOrder(t *testing.T) {
	for _, args := range [][]string{nil, {"--no-cgroups"}} {
		cmd, url := server(t, args...)
		pids := background(t, url)
		must(t, cmd.Process.Signal(syscall.SIGTERM))
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", args, err)
		}
		awaitGone(t, pids["own"], pids["leader"])
	}
}

func TestSIGKILLLeavesNobodyBehind(t *testing.T) {
	for _, args := range [][]string{nil, {"--no-cgroups"}} {
		cmd, url := server(t, args...)
		pids := background(t, url)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		awaitGone(t, pids["leader"])
		if len(args) == 0 && haveCgroups(t) {
			awaitGone(t, pids["own"])
			continue
		}
		// Without cgroups the watchdog does not know one that has made a
		// session of its own: that is the documented limit.
		_ = syscall.Kill(pids["own"], syscall.SIGKILL)
	}
}

// haveCgroups tells whether the server can make cgroups on this machine.
func haveCgroups(t *testing.T) bool {
	t.Helper()
	_, errs, _ := run(t, `{"id":1,"method":"initialize","params":{"clientName":"x"}}
{"method":"initialized"}
{"id":2,"method":"process/start","params":{"processId":"p","argv":["true"],"cwd":"/","env":{},"tty":false}}
`, "exec-server", "--listen", "stdio")
	return !strings.Contains(errs, "no cgroups")
}

func TestStdinCanEndTheServer(t *testing.T) {
	cmd := exec.Command(codex, "exec-server", "--exit-on-stdin-close")
	in, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	must(t, in.Close())
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestStdioAnswersBeforeItEnds(t *testing.T) {
	in := `{"id":1,"method":"initialize","params":{"clientName":"x"}}
{"method":"initialized"}
{"id":2,"method":"fs/getMetadata","params":{"path":"/"}}
{"id":3,"method":"nope"}`
	for range 10 {
		out, _, code := run(t, in, "exec-server", "--listen", "stdio")
		if code != 0 || strings.Count(out, "\n") != 3 || !strings.Contains(out, `"id":2`) {
			t.Fatalf("%d %s", code, out)
		}
	}
}

func TestSignalsAreNormalised(t *testing.T) {
	// The server starts with SIGINT ignored, as in the background of a script.
	cmd := exec.Command("sh", "-c", "trap '' INT; exec "+codex+" exec-server --listen stdio")
	cmd.Stdin = strings.NewReader(`{"id":1,"method":"initialize","params":{"clientName":"x"}}
{"method":"initialized"}
{"id":2,"method":"process/start","params":{"processId":"p","argv":["grep","SigIgn","/proc/self/status"],"cwd":"/","env":{"PATH":"/usr/bin:/bin"},"tty":false}}
{"id":3,"method":"process/read","params":{"processId":"p","waitMs":20000}}
`)
	out, err := cmd.Output()
	must(t, err)
	const zero = "U2lnSWduOgkwMDAwMDAwMDAwMDAwMDAwCg==" // SigIgn: 0000000000000000
	if !strings.Contains(string(out), zero) {
		t.Errorf("%s", out)
	}
}

// TestLastWritten checks that the end of a long log is kept.
func TestLastWritten(t *testing.T) {
	w := &lastWritten{}
	for range 3 {
		_, _ = w.Write(bytes.Repeat([]byte("a"), maxShown/2))
	}
	_, _ = w.Write([]byte("end"))
	if got := w.text(); len(got) != maxShown || !strings.HasSuffix(got, "aend") {
		t.Errorf("kept %d bytes, want %d that end with aend", len(got), maxShown)
	}
}
