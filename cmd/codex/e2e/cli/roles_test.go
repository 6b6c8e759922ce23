package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// TestRoles: clients with tokens of different roles and ceilings use one server.
func TestRoles(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	ws, beside := harness.Places(t)
	file := filepath.Join(t.TempDir(), "tokens.json")
	token := func(args ...string) string { return newToken(t, file, args...) }
	tokens := map[string]string{
		"read": token("--role", "read", "--principal", "ci"), "run": token("--role", "run", "--principal", "ci"),
		"other": token("--role", "run"), "capped": token("--role", "run", "--cwd", ws, "--limit-pids", "64"),
		"reading": token("--role", "run", "--max-sandbox", "read-only"),
	}
	harness.Must(t, os.WriteFile(filepath.Join(ws, "f"), []byte("text\n"), 0o600))
	harness.Must(t, os.WriteFile(filepath.Join(beside, "secret"), []byte("secret\n"), 0o600))
	harness.Must(t, os.Symlink(beside, filepath.Join(ws, "link")))
	state := t.TempDir()
	_, url := harness.ServerWith(t, []string{"XDG_STATE_HOME=" + state}, "--listen", "ws://127.0.0.1:0", "--ws-auth", "capability-token", "--ws-tokens", file)
	home, _ := harness.HomeDirectory(t, nil)
	in := func(name string) string { return ":" + filepath.Join(ws, name) }
	// Start a detached process of the principal ci. The principal's other token may follow it.
	for _, tt := range []struct {
		token string
		args  []string
		code  int
		want  string // expected in the output or the errors
	}{
		{"read", []string{"cat", in("f")}, 0, "text"},
		{"read", []string{"ls", ":" + ws}, 0, "f\n"},
		{"read", []string{"run", "--", "true"}, 127, "the role run, and this one has the role read"},
		{"read", []string{"rm", in("f")}, 1, "the role run"},
		{"read", []string{"cp", "/etc/hostname", in("new")}, 1, "the role run"},
		{"run", []string{"run", "--detach", "--name", "job", "--", "sh", "-c", "echo printed; exec sleep 600"}, 0, "job"},
		{"read", []string{"ps"}, 0, "job"},
		{"read", []string{"logs", "job"}, 0, "printed"},
		{"read", []string{"kill", "job"}, 1, "the role run"},
		{"other", []string{"logs", "job"}, 1, "you have no such detached process"},
		{"other", []string{"kill", "job"}, 1, "you have no such process"},
		{"run", []string{"kill", "job"}, 0, ""},

		{"capped", []string{"cat", in("f")}, 0, "text"},
		{"capped", []string{"cat", ":" + filepath.Join(beside, "secret")}, 1, "no such file"},
		{"capped", []string{"cat", in("link/secret")}, 1, "no such file"},
		{"capped", []string{"cp", "/etc/hostname", in("copied")}, 0, ""},
		{"capped", []string{"cp", "/etc/hostname", in("link/copied")}, 1, "no such file"},
		{"capped", []string{"run", "--cwd", ws, "--", "true"}, 127, "the process has no sandbox"},
		{"capped", []string{"exec", "--sandbox", "workspace-write", "--cwd", beside, "--", "true"}, 125, "must lie in"},
		{"capped", []string{"exec", "--sandbox", "workspace-write", "--cwd", filepath.Join(ws, "link"), "--", "true"}, 125, "must lie in"},
		{"capped", []string{"exec", "--network", "--cwd", ws, "--", "true"}, 125, "has the network"},
		{"capped", []string{"exec", "--sandbox", "workspace-write", "--cwd", ws, "--", "sh", "-c", "echo written > made && cat made"}, 0, "written"},
		{"capped", []string{"forward", "-W", "127.0.0.1:1"}, 1, "--max-sandbox workspace-write"},

		{"reading", []string{"cat", ":" + filepath.Join(beside, "secret")}, 0, "secret"},
		{"reading", []string{"rm", in("f")}, 1, "--max-sandbox read-only"},
		{"reading", []string{"exec", "--sandbox", "workspace-write", "--cwd", ws, "--", "true"}, 125, "permits writing"},
		{"reading", []string{"exec", "--sandbox", "read-only", "--cwd", ws, "--", "cat", "f"}, 0, "text"},
	} {
		env := []string{"CODEX_EXEC_SERVER_CONNECTION_TOKEN=" + tokens[tt.token]}
		out, errs, code := harness.RunWith(t, env, home, "", append([]string{"remote", "--url", url}, tt.args...)...)
		if code != tt.code || !strings.Contains(out+errs, tt.want) {
			t.Errorf("%s %v: %d (want %d, %q)\n%s%s", tt.token, tt.args, code, tt.code, tt.want, out, errs)
		}
	}
	if _, err := os.Stat(filepath.Join(beside, "copied")); err == nil {
		t.Error("a file was written outside of the ceiling")
	}
}

// newToken creates a token of a server in a file.
func newToken(t *testing.T, file string, args ...string) string {
	t.Helper()
	out, errs, code := harness.Run(t, "", append([]string{"exec-server", "token", "create", "--tokens", file}, args...)...)
	if code != 0 {
		t.Fatalf("%v: got %s, want exit code 0", args, errs)
	}
	return strings.TrimSpace(out)
}

// TestTokenExpiresDuringACommand: the command ends when its token expires.
func TestTokenExpiresDuringACommand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.json")
	_, url := harness.Server(t, "--ws-auth", "capability-token", "--ws-tokens", file)
	home, _ := harness.HomeDirectory(t, nil)
	env := []string{"CODEX_EXEC_SERVER_CONNECTION_TOKEN=" + newToken(t, file, "--role", "run", "--expires", "3s")}
	out, errs, code := harness.RunWith(t, env, home, "", "remote", "--url", url, "run", "--", "sh", "-c", "echo begun; exec sleep 600")
	// Either the command or the session may end first.
	if code == 0 || !strings.Contains(out, "begun") || code != 137 && !strings.Contains(errs, "the session") {
		t.Errorf("a token that ends while its command runs: %d\n%s%s", code, out, errs)
	}
}
