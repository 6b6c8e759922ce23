package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// TestCommandsThatCannotStart: exit codes and errors are the same as those of a shell.
func TestCommandsThatCannotStart(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	_, url := harness.Server(t)
	plain := filepath.Join(t.TempDir(), "plain")
	harness.Must(t, os.WriteFile(plain, nil, 0o644))
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--", "nosuch", "a b"}, 127, "Error: nosuch: command not found\n"},
		{[]string{"echo hi; ls"}, 127, "Error: echo hi; ls: command not found\n" +
			"hint: this is one word, and no shell reads it: write sh -c 'echo hi; ls' behind the --\n"},
		{[]string{"--", plain}, 126, "Error: " + plain + ": permission denied; is it an executable file?\n"},
		{[]string{"--cwd", plain + "/none", "--", "true"}, 127, "Error: working directory " + plain + "/none: not a directory\n"},
	} {
		for _, command := range [][]string{{"run"}, {"exec"}, {"run", "--read-only"}} {
			_, errs, code := harness.Run(t, "", slices.Concat([]string{"remote"}, command, []string{"--url", url}, tt.args)...)
			// In a sandbox, advice follows to which a refusal may be due.
			if code != tt.code || errs != tt.want && (len(command) == 1 && command[0] == "run" || tt.code == 127 || !strings.HasPrefix(errs, tt.want)) {
				t.Errorf("%s %q: %d %q, want %q", command, tt.args, code, errs, tt.want)
			}
		}
	}
	if out, errs, code := harness.Run(t, "", "remote", "run", "--url", url, "--read-only", "-t", "--", "nosuch"); code != 127 || out != "Error: nosuch: command not found\r\n" {
		t.Errorf("with a terminal: got %d %q %q, want the words of a shell", code, out, errs)
	}
	// A command that prints the same and more is not the launcher.
	const said = "codex-linux-sandbox: Failed to execvp sh: No such file or directory (os error 2)\n"
	if _, errs, code := harness.Run(t, "", "remote", "run", "--url", url, "--read-only", "--", "sh", "-c", `printf '%s\nmore\n' "$0" >&2`, strings.TrimSpace(said)); code != 0 || errs != said+"more\n" {
		t.Errorf("got %d %q, want the output unchanged", code, errs)
	}
	if _, errs, code := harness.Run(t, "", "remote", "run", "--url", url, "--timeout", "50ms", "--", "sleep", "1000"); code != 124 ||
		!strings.Contains(errs, "--timeout 50ms") {
		t.Errorf(`got exit code %d, stderr %q; want exit code 124, stderr with "--timeout 50ms"`, code, errs)
	}
}

// TestServerLogIsNotInTheOutput: an environment's program starts a server. Its log is shown only if
// it contains a warning, or with -v.
func TestServerLogIsNotInTheOutput(t *testing.T) {
	t.Parallel()
	home, env := harness.HomeDirectory(t, map[string]string{"environments.toml": `
default = "build"
[[environments]]
id = "build"
program = "sh"
args = ["-c", "echo from-ssh >&2; exec '` + harness.Codex + `' exec-server --listen stdio"]
`})
	for _, tt := range []struct {
		args []string
		log  bool
	}{{[]string{"remote", "run", "--", "true"}, false}, {[]string{"remote", "-v", "run", "--", "true"}, true}, {[]string{"remote", "run", "-v", "--", "true"}, true}} {
		_, errs, code := harness.RunWith(t, env, home, "", tt.args...)
		if code != 0 || strings.Contains(errs, "level=INFO") != tt.log || !strings.Contains(errs, "from-ssh\n") {
			t.Errorf(`%q: got exit code %d, stderr %q; want exit code 0, strings.Contains(errs, "level=INFO") %v, stderr with %q`, tt.args, code, errs, tt.log, "from-ssh\n")
		}
	}
}

// TestQuietAndVerbose: -q suppresses notes but not errors; -v reports the state of the connection.
func TestQuietAndVerbose(t *testing.T) {
	t.Parallel()
	home, env := harness.HomeDirectory(t, nil)
	_, url := harness.Server(t)
	for _, tt := range []struct {
		args []string
		code int
		errs string // a part of the expected text; empty: no output
	}{
		{[]string{"remote", "run", "--", "true"}, 0, "codex: no server is named"},
		{[]string{"remote", "run", "-q", "--", "true"}, 0, ""},
		{[]string{"remote", "-q", "run", "--", "true"}, 0, ""},
		{[]string{"remote", "ls", "/", "-q"}, 0, ""},
		{[]string{"remote", "-q", "cat", "/nosuch"}, 1, "Error: /nosuch: no such file or directory\n"},
		{[]string{"remote", "run", "--url", url, "-L", "0:127.0.0.1:9", "--", "true"}, 0, "leads to 127.0.0.1:9 of the server\n"},
		{[]string{"remote", "run", "--url", url, "-q", "-L", "0:127.0.0.1:9", "--", "true"}, 0, ""},
		{[]string{"remote", "run", "--url", url, "-v", "--", "true"}, 0, "codex: connected to " + url},
		{[]string{"remote", "run", "--url", url, "-it", "--", "true"}, 0, ""},
	} {
		_, errs, code := harness.RunWith(t, env, home, "", tt.args...)
		if code != tt.code || !strings.Contains(errs, tt.errs) || tt.errs == "" && errs != "" {
			t.Errorf(`%q: got exit code %d, stderr %q; want exit code %d, stderr with %q, stderr ""`, tt.args, code, errs, tt.code, tt.errs)
		}
	}
}
