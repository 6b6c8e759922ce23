package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/host/terminal/terminaltest"
)

// removed removes a file, and reports whether it existed.
func removed(t *testing.T, name string) bool {
	t.Helper()
	err := os.Remove(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

const (
	question = "Command failed; retry without sandbox?\r\n  [y] yes, once   [s] yes, for this session   [n] no   > "
	write    = "echo hi > made"
)

// secretProfile denies reading a path.
func secretProfile(path string) string {
	return fmt.Sprintf(`{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},`+
		`{"path":{"type":"path","path":%q},"access":"deny"}]},"network":"restricted"}`, path)
}

func TestRemoteExecWithoutATerminal(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	harness.NeedSandbox(t)
	workspace, beside := harness.Places(t)
	_, url := harness.Server(t)
	made := filepath.Join(workspace, "made")
	const blocked = "codex: the server's sandbox blocked the command (exit code 2)"
	for _, tt := range []struct {
		name    string
		options []string
		script  string
		code    int
		made    bool
		out     string
		errs    string // a part of the expected stderr
	}{
		{"nobody can be asked", nil, write, 126, false, "", blocked + "; it is not run again without the sandbox: no terminal is available for the question"},
		{"nor when that was wanted", []string{"--ask", "on-failure"}, write, 126, false, "", "no terminal is available for the question"},
		{"nor before it runs", []string{"--ask", "always"}, "echo ran", 126, false, "", "codex: the command was not run, because no user can be asked: no terminal"},
		{"yes", []string{"--yes"}, write, 0, true, "", blocked + "; retrying without the sandbox (--yes)"},
		{"yes to everything", []string{"--yes", "--ask", "always"}, write, 0, true, "", "retrying without the sandbox (--yes)"},
		{"no input", []string{"--no-input"}, write, 126, false, "", "it is not run again without the sandbox: --no-input"},
		{"never", []string{"--ask", "never"}, write, 126, false, "", "it is not run again without the sandbox: --ask never"},
		{"a slow denial", []string{"--yes"}, "sleep 1; " + write, 0, true, "", "retrying without"},
		{"denied reads", []string{"--yes", "--sandbox", secretProfile(beside)}, write, 126, false, "", "it is not run again without the sandbox: its permissions deny reading some paths"},
		{"the retry's failure is final", []string{"--yes"}, write + "; exit 9", 9, true, "", "retrying without"},
		{"a failure of its own", []string{"--yes"}, "echo out; exit 5", 5, false, "out\n", ""},
		{"success", nil, "echo out", 0, false, "out\n", ""},
		{"what the policy allows", []string{"--sandbox", "workspace-write"}, write, 0, true, "", ""},
		{"no sandbox", []string{"--sandbox", "danger-full-access"}, write, 0, true, "", ""},
		{"a signal", nil, "kill -KILL $$", 137, false, "", ""},
		{"a variable", []string{"--env-var", "A=b c"}, `echo "$A"`, 0, false, "b c\n", ""},
		{"too slow", []string{"--timeout", "50ms"}, "sleep 1000", 124, false, "", "--timeout 50ms"},
		{"a sandbox that the server refuses", []string{"--sandbox", `{"permissions":{"type":"managed"}}`}, "true", 125, false, "", "Error: data did not match any variant"},
		{"a server that is not there", []string{"--url", "ws://127.0.0.1:1"}, "true", 125, false, "", "is the server running"},
	} {
		args := append([]string{"remote", "exec", "--url", url, "--cwd", workspace}, tt.options...)
		out, errs, code := harness.Alone(t, nil, append(args, "--", "sh", "-c", tt.script)...)
		if code != tt.code || out != tt.out || !strings.Contains(errs, tt.errs) || tt.errs == "" && errs != "" {
			t.Errorf("%s: exit code %d, %q, %q", tt.name, code, out, errs)
		}
		if removed(t, made) != tt.made {
			t.Errorf("%s: the file is there: %v", tt.name, !tt.made)
		}
	}
	for name, tt := range map[string]struct {
		args []string
		code int
		errs string
	}{
		"no such command":           {[]string{"--sandbox", "danger-full-access", "--", "no-such-program"}, 127, "no-such-program"},
		"no such command, confined": {[]string{"--", "no-such-program"}, 127, "no-such-program"},
	} {
		if _, errs, code := harness.Alone(t, nil, append([]string{"remote", "exec", "--url", url}, tt.args...)...); code != tt.code || !strings.Contains(errs, tt.errs) {
			t.Errorf("%s: exit code %d, %q", name, code, errs)
		}
	}
}

func TestRetriesGetTheSameInput(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	workspace, _ := harness.Places(t)
	_, url := harness.Server(t)
	made := filepath.Join(workspace, "made")
	for _, tt := range []struct {
		name, script, input, want string
		code                      int
		errs                      string
	}{
		{"what was not read", "cat > made", "one\ntwo\n", "one\ntwo\n", 0, "retrying"},
		{"what was read", "read x; echo $x > made", "one\ntwo\n", "one\n", 0, "retrying"},
		{"not what is too long", "cat > /dev/null; echo > made", strings.Repeat("x", 1<<20+1), "", 126, "more than 1024 KiB of input"},
		{"but as much as is kept", "wc -c | tr -d ' ' > made", strings.Repeat("x", 1<<20), "1048576\n", 0, "retrying"},
	} {
		_, errs, code := harness.Alone(t, strings.NewReader(tt.input), "remote", "exec", "--url", url, "--cwd", workspace, "--yes", "--", "sh", "-c", tt.script)
		got, _ := os.ReadFile(made)
		removed(t, made)
		if code != tt.code || string(got) != tt.want || !strings.Contains(errs, tt.errs) {
			t.Errorf("%s: exit code %d, %q, %q", tt.name, code, got, errs)
		}
	}
}

func TestRemoteExecInJSON(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	workspace, _ := harness.Places(t)
	_, url := harness.Server(t)
	out, errs, code := harness.Alone(t, nil, "remote", "exec", "--url", url, "--cwd", workspace, "--json", "--yes", "--", "sh", "-c",
		`printf 'caf\303'; printf '\251 \377' >&2; `+write)
	if code != 0 || !strings.Contains(errs, "retrying") {
		t.Errorf("exit code %d, %q", code, errs)
	}
	var seen []string
	for line := range strings.Lines(out) {
		var e struct {
			Type, ProcessID, Cwd, Sandbox, Stream, Data, Answer, By, Reason string
			Attempt                                                         int
			DataBase64                                                      []byte
			Argv                                                            []string
			ExitCode                                                        *int
			SandboxDenied                                                   bool
		}
		harness.Must(t, json.Unmarshal([]byte(line), &e))
		text := fmt.Sprintf("%s %d", e.Type, e.Attempt)
		switch e.Type {
		case "started":
			if text += " " + e.Sandbox; e.Cwd != "file://"+workspace || len(e.Argv) != 3 || e.ProcessID == "" {
				t.Errorf(`got %s; want e.Cwd %v, len(e.Argv) 3, e.ProcessID other than ""`, line, "file://"+workspace)
			}
		case "exited", "denied":
			text += fmt.Sprintf(" %d %v%s", *e.ExitCode, e.SandboxDenied, e.Reason)
		case "approval":
			text += " " + e.Answer + " by " + e.By
		case "output":
			continue // the pipe determines how output is split
		}
		seen = append(seen, text)
	}
	want := []string{
		"started 1 linuxSeccomp", "exited 1 2 true", "closed 1", "denied 1 2 false", "approval 1 once by --yes", "retry 1",
		"started 2 none", "exited 2 0 false", "closed 2",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
	if !strings.Contains(out, `"stream":"stdout","data":"caf"`) || !strings.Contains(out, `"dataBase64"`) {
		t.Errorf("got %s; want a text with %q, a text with %q", out, `"stream":"stdout","data":"caf"`, `"dataBase64"`)
	}
}

// TestApproval: a read-only sandbox denies a write. The client asks whether the command may run
// again, and the test gives each possible answer.
func TestApproval(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel() // the test waits until keys count as an answer
	harness.NeedSandbox(t)
	workspace, beside := harness.Places(t)
	_, url := harness.Server(t)
	made := filepath.Join(workspace, "made")
	text := fmt.Sprintf("sandbox: the command was blocked by the server's sandbox (exit code 2)\r\n"+
		"  environment: remote   cwd: %s\r\n  command: sh -c '%s'\r\n%s", workspace, write, question)
	for _, tt := range []struct {
		name, keys string
		code       int
		made       bool
		rest       string
	}{
		{"y", "y\n", 0, true, ""},
		{"yes", "Yes\n", 0, true, ""},
		{"for the session", "S\n", 0, true, ""},
		{"no", "n\n", 126, false, "codex: rejected by user"},
		{"nothing", "\n", 126, false, "rejected"},
		{"too long a word", strings.Repeat("y", 300) + "\n", 126, false, "rejected"},
		{"the end of the input", "\x04", 126, false, "rejected"},
		// After an interrupt the terminal discards pending output.
		{"an interrupt", "\x03", 126, false, ""},
		{"an interrupt behind a yes", "y\x03", 126, false, ""},
	} {
		for _, tty := range [][]string{nil, {"--tty"}} {
			args := append([]string{"remote", "exec", "--url", url, "--cwd", workspace}, tty...)
			u := harness.AtTerminal(t, append(args, "--", "sh", "-c", write)...)
			u.Expect("Read-only")
			u.Expect(text)
			u.Types(tt.keys)
			rest, code := u.End()
			if code != tt.code || !strings.Contains(rest, tt.rest) {
				t.Errorf("%s, %q: exit code %d, %q", tt.name, tty, code, rest)
			}
			if removed(t, made) != tt.made {
				t.Errorf("%s, %q: the file is there: %v", tt.name, tty, !tt.made)
			}
		}
	}
	// The question has lines of its own.
	u := harness.AtTerminal(t, "remote", "exec", "--url", url, "--cwd", workspace, "--", "sh", "-c", "("+write+") 2> /dev/null; printf 'Permission denied'; exit 1")
	u.Expect("Permission denied\r\n")
	u.Expect("== codex asks; above this line is other output ==")
	u.Expect(question)
	u.Types("n\n")
	if rest, code := u.End(); code != 126 {
		t.Errorf("in the middle of a line: exit code %d, %q", code, rest)
	}
	u = harness.AtTerminal(t, "remote", "exec", "--url", url, "--cwd", workspace, "--sandbox", secretProfile(beside), "--", "sh", "-c", write)
	if rest, code := u.End(); code != 126 || removed(t, made) || strings.Contains(rest, "retry without sandbox?") || !strings.Contains(rest, "deny reading") {
		t.Errorf("denied reads: exit code %d, %q", code, rest)
	}
}

// A command can write any text before the client asks about it. The question must still be readable
// at the end of the screen.
func TestCommandsCannotHideTheQuestion(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel() // the test waits until keys count as an answer
	harness.NeedSandbox(t)
	workspace, _ := harness.Places(t)
	_, url := harness.Server(t)
	for _, state := range []string{`\033]0;`, `\033P`, `\033_`, `\033[8m`, `\033[?1049h\033[8m\033(0`, `\033[1;1H\033[1;2r`, `\033[?2026h`} {
		for _, tty := range [][]string{nil, {"--tty"}} {
			args := append([]string{"remote", "exec", "--url", url, "--cwd", workspace}, tty...)
			u := harness.AtTerminal(t, append(args, "--", "sh", "-c", "("+write+") 2> /dev/null || { printf 'Permission denied\\r\\nUpdate? [y/N] "+state+"'; exit 1; }")...)
			screen := terminaltest.NewScreen(31, 97)
			all := ""
			for b := make([]byte, 4096); !strings.HasSuffix(all, "[n] no   > "); {
				n, err := u.TTY.Read(b)
				if err != nil {
					t.Fatalf("%s: no question: %q, %v", state, all, err)
				}
				all += string(b[:n])
				_, _ = screen.Write(b[:n])
			}
			if text := screen.Text(); !strings.HasSuffix(text, "\nCommand failed; retry without sandbox?\n  [y] yes, once   [s] yes, for this session   [n] no   >") {
				t.Errorf("%s, %q: the screen shows\n%s", state, tty, text)
			}
			u.Types("n\n")
			if rest, code := u.End(); code != 126 {
				t.Errorf("%s, %q: exit code %d, %q", state, tty, code, rest)
			}
		}
	}
}

func TestQuestionsNameTheEnvironment(t *testing.T) {
	harness.NeedSandbox(t)
	workspace, beside := harness.Places(t)
	_, url := harness.Server(t)
	harness.Must(t, os.WriteFile(filepath.Join(beside, "environments.toml"), fmt.Appendf(nil, "[[environments]]\nid = \"box\"\nurl = %q\n", url), 0o644))
	t.Setenv("CODEX_HOME", beside)
	u := harness.AtTerminal(t, "remote", "--env", "box", "exec", "--cwd", workspace, "--", "sh", "-c", write)
	u.Expect("  environment: box   cwd: " + workspace + "\r\n")
	u.Expect(question)
	u.Types("y\n")
	if rest, code := u.End(); code != 0 || !removed(t, filepath.Join(workspace, "made")) {
		t.Errorf("exit code %d, %q", code, rest)
	}
}

func TestApprovalBeforeTheCommandRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel() // the test waits until keys count as an answer
	harness.NeedSandbox(t)
	workspace, _ := harness.Places(t)
	_, url := harness.Server(t)
	const first = "Run the command?\r\n  [y] yes, once   [s] yes, for this session   [n] no   > "
	start := func() *harness.User {
		u := harness.AtTerminal(t, "remote", "exec", "--url", url, "--cwd", workspace, "--ask", "always", "--", "sh", "-c", "echo ran; "+write)
		u.Expect("sandbox: read-only\r\n")
		u.Expect(first)
		return u
	}
	u := start()
	u.Types("n\n")
	if rest, code := u.End(); code != 126 || strings.Contains(rest, "ran\r\n") {
		t.Errorf("no: exit code %d, %q", code, rest)
	}
	// The first yes is for the sandbox. Without a sandbox there is a second question.
	u = start()
	u.Types("y\n")
	u.Expect("ran\r\n")
	u.Expect(question)
	u.Types("y\n")
	if rest, code := u.End(); code != 0 || !strings.Contains(rest, "ran\r\n") || !removed(t, filepath.Join(workspace, "made")) {
		t.Errorf("yes: exit code %d, %q", code, rest)
	}
}

func TestKeysBeforeTheQuestionAreNoAnswer(t *testing.T) {
	t.Parallel() // the test waits until keys count as an answer
	harness.NeedSandbox(t)
	workspace, _ := harness.Places(t)
	_, url := harness.Server(t)
	for _, tty := range [][]string{nil, {"--tty"}} {
		args := append([]string{"remote", "exec", "--url", url, "--cwd", workspace}, tty...)
		u := harness.AtTerminal(t, append(args, "--", "sh", "-c", "echo ready; sleep 0.2; "+write)...)
		u.Expect("ready")
		u.Types("y\ny\n")
		u.Expect(question)
		u.Types("n\n")
		if rest, code := u.End(); code != 126 || removed(t, filepath.Join(workspace, "made")) {
			t.Errorf("%q: exit code %d, %q", tty, code, rest)
		}
	}
}

func TestQuestionsLeaveStdinAlone(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	workspace, _ := harness.Places(t)
	_, url := harness.Server(t)
	made := filepath.Join(workspace, "made")
	// Stdin is a file that would answer no.
	input := filepath.Join(workspace, "plain")
	harness.Must(t, os.WriteFile(input, []byte("n\nn\n"), 0o644))
	u := harness.AtTerminalOf(t, "sh", "-c", `exec "$0" "$@" < `+input, harness.Codex, "remote", "exec", "--url", url, "--cwd", workspace, "--", "sh", "-c", "cat > made")
	u.Expect(question)
	u.Types("y\n")
	rest, code := u.End()
	got, _ := os.ReadFile(made)
	if code != 0 || string(got) != "n\nn\n" {
		t.Errorf("exit code %d, %q, %q", code, got, rest)
	}
}

func TestCommandsSurviveACut(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	cut, url := harness.ThroughProxy(t, url)
	u := harness.AtTerminal(t, "remote", "exec", "--url", url, "--sandbox", "danger-full-access", "--tty", "--", "sh", "-c", "echo ready; read x; echo got $x; exit 7")
	u.Expect("ready")
	cut.Cut()
	u.Expect("\r\x1b[Kcodex: the connection was lost; reconnecting…")
	u.Expect("\r\x1b[Kcodex: reconnected after ")
	u.Types("it\r")
	u.Expect("got it")
	if rest, code := u.End(); code != 7 {
		t.Errorf("exit code %d, %q", code, rest)
	}
}

func TestSession(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	workspace, _ := harness.Places(t)
	harness.Must(t, os.Mkdir(filepath.Join(workspace, "a dir"), 0o755))
	_, url := harness.Server(t)
	cut, url := harness.ThroughProxy(t, url)
	u := harness.AtTerminal(t, "remote", "exec", "--url", url, "--cwd", workspace, "--shell")
	prompt := func(dir string) { u.T.Helper(); u.Expect("remote:" + dir + " (read-only)> ") }

	prompt(workspace)
	u.Types("echo \"$((40 + 2))\"; stty size\r")
	u.Expect("42\r\n")
	u.Expect("31 97\r\n")
	prompt(workspace)

	// The directory is kept, however the line has changed it, and the output does not show the
	// report of it.
	u.Types("cd 'a dir' && printf '%s' shown\r")
	dir := filepath.Join(workspace, "a dir")
	u.Expect("\nshownremote:" + dir + " (read-only)> ")

	// A command that was approved for the session is not asked about again.
	u.Types(write + "\r")
	u.Expect("command: /")
	u.Expect("-c '" + write + "'")
	u.Expect(question)
	u.Types("s\n")
	prompt(dir)
	if !removed(t, filepath.Join(dir, "made")) {
		t.Error("approved, and not made")
	}
	u.Types(write + "\r")
	u.Expect("codex: retrying without the sandbox, as approved for this session")
	prompt(dir)
	if !removed(t, filepath.Join(dir, "made")) {
		t.Error("approved for the session, and not made")
	}
	// In another directory, or as another command, the client asks again.
	u.Types("cd ..\r")
	prompt(workspace)
	u.Types(write + "\r")
	u.Expect(question)
	u.Types("n\n")
	u.Expect("codex: rejected by user")
	prompt(workspace)

	// Ctrl-C interrupts a command, and clears a line.
	u.Types("sh -c 'trap \"echo caught; exit 9\" INT; echo ready; while :; do sleep 0.02; done'\r")
	u.Expect("ready\r\n")
	u.Types("\x03")
	u.Expect("caught\r\n")
	prompt(workspace)
	u.Types("exit 9\x03echo still; false\r")
	u.Expect("still\r\n")
	prompt(workspace)

	cut.Cut()
	u.Expect("reconnecting…")
	u.Expect("reconnected")
	u.Types("echo back\r")
	u.Expect("back\r\n")
	prompt(workspace)

	u.Types("exit 3\r")
	if rest, code := u.End(); code != 3 {
		t.Errorf("exit code %d, %q", code, rest)
	}
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	_, another := harness.Server(t)
	cut, url := harness.ThroughProxy(t, url)
	start := func() *harness.User {
		u := harness.AtTerminal(t, "remote", "exec", "--url", url, "--sandbox", "danger-full-access", "--shell")
		u.Expect("(none)> ")
		return u
	}
	u := start()
	u.Types("sh -c 'exit 4'\r")
	u.Expect("(none)> ")
	u.Types("\x04")
	if rest, code := u.End(); code != 4 {
		t.Errorf("the end of the input: exit code %d, %q", code, rest)
	}
	u = start()
	harness.Must(t, u.Cmd.Process.Signal(syscall.SIGTERM))
	if rest, code := u.End(); code != 130 || !strings.Contains(rest, "signal") {
		t.Errorf("a signal: exit code %d, %q", code, rest)
	}
	u = start()
	cut.SetTarget(harness.Address(another)) // a server that does not know the session
	cut.Cut()
	if rest, code := u.End(); code != 125 || !strings.Contains(rest, "with it the session") {
		t.Errorf("the session is lost: exit code %d, %q", code, rest)
	}
}
