package sandbox

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"github.com/creack/pty"
)

// runIn runs codex in a directory.
func runIn(t *testing.T, dir, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(harness.Codex, args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, strings.NewReader(stdin), &out, &errs
	timer := time.AfterFunc(harness.Patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// TestTheVariableOfTheNetwork: codex sandbox tells its command by the variable of Codex CLI that the network is off.
func TestTheVariableOfTheNetwork(t *testing.T) {
	harness.NeedSandbox(t)
	for _, tt := range []struct {
		args string
		want string
	}{
		{"", "1"}, {"--workspace-write", "1"}, {"--network", "unset"}, {"--allow-domain localhost", "unset"}, {"--sandbox danger-full-access", "unset"},
	} {
		args := append(append([]string{"sandbox"}, strings.Fields(tt.args)...), "--", "sh", "-c", "echo ${CODEX_SANDBOX_NETWORK_DISABLED-unset}")
		if out, errs, _ := runIn(t, t.TempDir(), "", args...); out != tt.want+"\n" {
			t.Errorf("%q: got %q, %s; want %s", tt.args, out, errs, tt.want)
		}
	}
}

func TestSandbox(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	workspace, beside := harness.Places(t)
	profile := filepath.Join(beside, "profile.json")
	entry := func(path string) string {
		return fmt.Sprintf(`{"path":{"type":"path","path":%q},"access":"write"}`, path)
	}
	write := func(entries ...string) {
		harness.Must(t, os.WriteFile(profile, []byte(`{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},`+
			strings.Join(entries, ",")+`]},"network":"restricted"}`), 0o644))
	}
	script := func(options []string, text string) []string {
		return append(append([]string{"sandbox"}, options...), "--", "sh", "-c", text)
	}
	write(entry("file://"+beside), entry(workspace))
	for _, tt := range []struct {
		name  string
		args  []string
		stdin string
		code  int
		out   string
		errs  string // a part of the expected stderr
	}{
		{"by default nothing may be written", script(nil, "cat plain; echo y >made"), "", 2, "x", "Read-only"},
		{"read-only says the same", script([]string{"--read-only"}, "echo y >made || exit 4"), "", 4, "", "Read-only"},
		{"workspace-write writes here", script([]string{"--workspace-write"}, "echo y >made && cat made"), "", 0, "y\n", ""},
		{"not in .git", script([]string{"--workspace-write"}, "echo y >.git/made || exit 4"), "", 4, "", "Read-only"},
		{"not beside", script([]string{"--workspace-write"}, "echo y >../beside/made || exit 4"), "", 4, "", "Read-only"},
		{"beside if asked to", script([]string{"--workspace-write", "--writable-root", "../beside"}, "echo y >../beside/made && cat ../beside/made"), "", 0, "y\n", ""},
		{"in another directory", script([]string{"--workspace-write", "--cwd", beside}, "pwd; echo y >here; echo n >../workspace/there || exit 4"), "", 4, beside + "\n", "Read-only"},
		{"a profile with URIs", script([]string{"--profile-file", profile}, "echo y >../beside/made && echo y >made && echo done"), "", 0, "done\n", ""},
		{"by the backend that is asked for", script([]string{"--backend", "namespaces"}, "echo here"), "", 0, "here\n", ""},
		{"input passes", []string{"sandbox", "--", "cat"}, "hello", 0, "hello", ""},
		{"the exit code passes", script(nil, "exit 37"), "", 37, "", ""},
		{"and the signal", script(nil, "kill -KILL $$"), "", 137, "", ""},
		{"no such command", []string{"sandbox", "--", "no-such-program"}, "", 127, "", "Error: no-such-program: command not found\n"},
		{"no such command, behind bwrap", []string{"sandbox", "--backend", "bwrap", "--", "no-such-program"}, "", 127, "", "Error: no-such-program: command not found\n"},
		{"no such command, with the broker", []string{"sandbox", "--backend", "broker", "--", "no-such-program"}, "", 127, "", "Error: no-such-program: command not found\n"},
		{"a directory that cannot be read", []string{"sandbox", "--sandbox", "{}", "--", "true"}, "", 125, "",
			"the profile does not permit reading " + workspace + ", the directory of the command; permit that, or choose another directory\n"},
		{"a directory that cannot be read, behind bwrap", []string{"sandbox", "--backend", "bwrap", "--sandbox", "{}", "--", "true"}, "", 125, "",
			"the profile does not permit reading " + workspace},
		{"a command that may not be executed", []string{"sandbox", "--", "./plain"}, "", 126, "", "Error: ./plain: permission denied\n"},
		{"the command's own options", []string{"sandbox", "echo", "--network"}, "", 0, "--network\n", ""},
		{"a profile that is none", []string{"sandbox", "--profile-file", "plain", "--", "true"}, "", 1, "", "plain is not a valid permission profile: expected value"},
		{"a profile that is missing", []string{"sandbox", "--profile-file", "missing", "--", "true"}, "", 1, "", "missing: no such file"},
		{"a directory that is missing", []string{"sandbox", "--cwd", "missing", "--", "true"}, "", 1, "", "--cwd"},
		{"a root that is missing", []string{"sandbox", "--workspace-write", "--writable-root", "missing", "--", "true"}, "", 1, "", "must exist"},
		{"no command", []string{"sandbox"}, "", 2, "", "needs a command"},
		{"two policies", []string{"sandbox", "--read-only", "--workspace-write", "--", "true"}, "", 2, "", "exclude each other"},
		{"a root that nobody may write", []string{"sandbox", "--writable-root", ".", "--", "true"}, "", 2, "", "--workspace-write"},
		{"a profile and the network", []string{"sandbox", "--network", "--profile-file", profile, "--", "true"}, "", 2, "", "cannot be used with --profile-file"},
		{"a profile in the command's input", []string{"sandbox", "--profile-file", "-", "--", "cat"}, "{}", 2, "", "the standard input is the command's"},
		{"an unknown backend", []string{"sandbox", "--backend", "chroot", "--", "true"}, "", 2, "", "namespaces, bwrap, broker, landlock"},
		{"an unknown option", []string{"sandbox", "--writeable", "--", "true"}, "", 2, "", "unknown flag --writeable"},
	} {
		out, errs, code := runIn(t, workspace, tt.stdin, tt.args...)
		if code != tt.code || out != tt.out || !strings.Contains(errs, tt.errs) || tt.errs == "" && errs != "" {
			t.Errorf("%s: exit code %d, %q, %q", tt.name, code, out, errs)
		}
	}
	// The profile is longer than the limit of one argument.
	many := []string{entry(workspace)}
	for i := range 1000 {
		many = append(many, fmt.Sprintf(`{"path":{"type":"path","path":"/nonexistent/%090d"},"access":"read"}`, i))
	}
	write(many...)
	if out, errs, code := runIn(t, workspace, "in", "sandbox", "--profile-file", profile, "--", "cat"); out != "in" || code != 0 {
		t.Errorf("a long profile: %d, %q, %q", code, out, errs)
	}
}

func TestSandboxExplains(t *testing.T) {
	t.Parallel()
	workspace, _ := harness.Places(t)
	out, errs, code := runIn(t, workspace, "", "sandbox", "--workspace-write", "--network", "--explain")
	if code != 0 || !strings.Contains(out, workspace+"  writable") || !strings.Contains(out, workspace+"/.git  read-only") || !strings.Contains(out, "network: on") {
		t.Errorf(`got exit code %d, stdout %s, stderr %s; want exit code 0, stdout with %q, stdout with %q, stdout with "network: on"`, code, out, errs, workspace+"  writable", workspace+"/.git  read-only")
	}
	out, errs, code = runIn(t, workspace, `{"type":"disabled"}`, "sandbox", "--profile-file", "-", "--explain")
	if code != 0 || !strings.Contains(out, "network: on") {
		t.Errorf("a profile from the input: %d %s%s", code, out, errs)
	}
}

func TestSandboxAndTheNetwork(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	_, url := harness.Server(t)
	// With the network on, the command reaches the server, which admits no confined process.
	const refused = "the client is refused"
	for _, tt := range []struct {
		option  string
		reached bool
	}{{"--read-only", false}, {"--network", true}} {
		if out, errs, code := harness.Run(t, "", "sandbox", tt.option, "--", harness.Codex, "remote", "info", "--url", url); code != 255 || strings.Contains(errs, refused) != tt.reached {
			t.Errorf("%s: exit code %d, %q, %q", tt.option, code, out, errs)
		}
	}
}

func TestSandboxOnATerminal(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	const script = `trap 'echo caught; exit 9' INT; test -t 0 && stty size; echo ready; while :; do sleep 0.02; done`
	for name, argv := range map[string][]string{
		"alone":      {harness.Codex, "sandbox", "--", "sh", "-c", script},
		"in a shell": {"sh", "-c", `trap : INT; "$@"; exit $?`, "sh", harness.Codex, "sandbox", "--", "sh", "-c", script},
	} {
		cmd := exec.Command(argv[0], argv[1:]...)
		tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 31, Cols: 97})
		harness.Must(t, err)
		timer := time.AfterFunc(harness.Patience, func() { _ = cmd.Process.Kill() })
		r := bufio.NewReader(tty)
		seen := ""
		for !strings.HasSuffix(seen, "ready\r\n") {
			line, err := r.ReadString('\n')
			if seen += line; err != nil {
				t.Fatalf("%s: got seen %q, error %v; want no error", name, seen, err)
			}
		}
		if !strings.Contains(seen, "31 97") {
			t.Errorf(`%s: got %q, want a text with "31 97"`, name, seen)
		}
		_, err = tty.WriteString("\x03")
		harness.Must(t, err)
		rest, _ := io.ReadAll(r)
		_ = cmd.Wait()
		timer.Stop()
		_ = tty.Close()
		if code := cmd.ProcessState.ExitCode(); code != 9 || !strings.Contains(string(rest), "caught") {
			t.Errorf("%s: exit code %d, %q", name, code, rest)
		}
	}
}

func TestRemoteRunInASandbox(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	workspace, beside := harness.Places(t)
	_, url := harness.Server(t)
	profile := func(path string) string {
		return fmt.Sprintf(`{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},`+
			`{"path":{"type":"path","path":%q},"access":"write"}]},"network":"restricted"}`, path)
	}
	const denied = "codex: the sandbox on the server probably denied it; "
	for _, tt := range []struct {
		name, policy, script string
		code                 int
		out, errs            string
		denied               string // expected advice; empty: no advice
	}{
		{"nothing may be written", "read-only", "cat plain; echo y >made || exit 5", 5, "x", "Read-only", "--sandbox workspace-write"},
		{"the workspace may", "workspace-write", "echo y >made; cat made", 0, "y\n", "", ""},
		{"but not .git", "workspace-write", "echo y >.git/made || exit 5", 5, "", "Read-only", "--writable-root, or a profile with --profile-file"},
		{"nor what lies beside", "workspace-write", "echo y >../beside/made || exit 5", 5, "", "Read-only", "--writable-root, or a profile with --profile-file"},
		{"failures of its own are no denial", "workspace-write", "exit 5", 5, "", "", ""},
		{"success is none", "read-only", "echo Permission denied", 0, "Permission denied\n", "", ""},
		{"a profile", profile(beside), "echo y >../beside/made && echo done; echo n >made || exit 5", 5, "done\n", "Read-only", "the JSON of --sandbox"},
		{"a profile with URIs", profile("file://" + beside), "echo y >../beside/made && echo done", 0, "done\n", "", ""},
		{"a whole sandbox", `{"permissions":` + profile("file://"+beside) + `,"cwd":"file:///"}`, "echo y >../beside/made && echo done", 0, "done\n", "", ""},
		{"no sandbox by profile", `{"type":"disabled"}`, "echo y >../beside/made && echo done", 0, "done\n", "", ""},
		{"an unknown word", "danger", "true", 2, "", "read-only, workspace-write or a JSON object", ""},
		{"no JSON", `{"type":`, "true", 2, "", "invalid JSON", ""},
		{"no profile", `{"a":1}`, "true", 2, "", "invalid permission profile: unknown field `a`", ""},
		{"a relative path", profile("made"), "true", 2, "", `the path "made"`, ""},
		{"no word", "", "true", 2, "", "leave it out", ""},
		{"a sandbox that the server refuses", `{"permissions":{"type":"managed"}}`, "true", 127, "", "Error: data did not match any variant", ""},
	} {
		out, errs, code := harness.Run(t, "", "remote", "run", "--url", url, "--cwd", workspace, "--sandbox", tt.policy, "--", "sh", "-c", tt.script)
		if code != tt.code || out != tt.out || !strings.Contains(errs, tt.errs) {
			t.Errorf("%s: exit code %d, %q, %q", tt.name, code, out, errs)
		}
		if _, hint, found := strings.Cut(errs, denied); found != (tt.denied != "") || !strings.Contains(hint, tt.denied) || strings.Count(hint, "\n") > 1 {
			t.Errorf("%s: says of a denial: %q", tt.name, errs)
		}
	}
	// Advice about a profile in a file names the option of the file.
	file := filepath.Join(t.TempDir(), "profile.json")
	harness.Must(t, os.WriteFile(file, []byte(profile(beside)), 0o600))
	run := func(args ...string) (out, errs string, code int) {
		return harness.Run(t, "", append([]string{"remote", "run", "--url", url, "--cwd", workspace, "--profile-file", file}, args...)...)
	}
	if _, errs, code := run("--", "sh", "-c", "echo n >made || exit 5"); code != 5 || !strings.Contains(errs, denied+"to allow more change the profile of --profile-file\n") {
		t.Errorf("--profile-file: got code %d, %q; want 5 and advice that names --profile-file", code, errs)
	}
	if _, errs, code := run("--network", "--", "true"); code != 2 || !strings.Contains(errs, "cannot be used with --profile-file") {
		t.Errorf("--profile-file --network: got code %d, %q; want 2 and an error that names --profile-file", code, errs)
	}
	// On a terminal the hint comes after the output.
	out, errs, code := harness.Run(t, "", "remote", "run", "--url", url, "--cwd", workspace, "--tty", "--sandbox", "read-only", "--", "sh", "-c", "echo y >made || exit 5")
	if code != 5 || !strings.Contains(out, "Read-only") || !strings.HasPrefix(errs, denied) {
		t.Errorf("on a terminal: %d, %q, %q", code, out, errs)
	}
}
