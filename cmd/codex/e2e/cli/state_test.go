package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/testutil/machine"
)

// stateSecret is a text that a sandboxed command must not read.
const stateSecret = "the-output-of-another-session"

// state is a directory with a server's files: detached processes, one of which has printed
// the secret, and a token.
type state struct {
	*detaching
	parent string // parent of the directory of detached processes, writable for the attacker
	token  string // path of the token file
}

// newState starts a server whose state is in a workspace, below a link.
func newState(t *testing.T, args ...string) *state {
	t.Helper()
	workspace, beside := harness.Places(t)
	parent := filepath.Join(workspace, "state")
	harness.Must(t, os.Mkdir(parent, 0o755))
	link := filepath.Join(beside, "link")
	harness.Must(t, os.Symlink(parent, link))
	s := &state{detaching: newDetachingIn(t, filepath.Join(link, "retain"), append([]string{"--no-cgroups"}, args...)...), parent: parent}
	s.token = filepath.Join(workspace, "token")
	harness.Must(t, os.WriteFile(s.token, []byte(stateSecret), 0o600))
	s.must("run", "--detach", "--name", "talks", "--", "sh", "-c", "echo "+stateSecret+"; exec sleep 1000")
	harness.Eventually(t, "the secret", func() []string {
		if out := s.must("logs", "talks"); !strings.Contains(out, stateSecret) {
			return []string{out}
		}
		return nil
	})
	return s
}

// TestStateIsHidden: sandboxed commands and file requests, including those of detached
// processes, cannot read other detached processes, records with the secrets of keepers, or
// the server's tokens. This also holds if they may write to the directories that lead there.
func TestStateIsHidden(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	harness.NeedSandbox(t)
	harness.EachBackend(t, []string{machine.Namespaces, machine.Bwrap, machine.Landlock}, func(t *testing.T, backend string) {
		args := []string{"--sandbox-backend", backend}
		if backend == machine.Landlock {
			args = append(args, "--sandbox-stricter") // without this option, Landlock hides no state
		}
		s := newState(t, args...)
		// The attack must work without a sandbox.
		script := fmt.Sprintf("cat %s/retain/*/* %s; for d in %[1]s/* %[1]s/*/*; do cat $d/*; done; find %[1]s; true", s.parent, s.token)
		if out, _ := exec.Command("sh", "-c", script).CombinedOutput(); !strings.Contains(string(out), stateSecret) {
			t.Fatalf("without a sandbox the attack does not work: %s", out)
		}
		_, url := harness.Server(t, append(args, "--retain-dir", s.dir, "--ws-auth", "capability-token", "--ws-token-file", s.token)...)
		workspace := filepath.Dir(s.parent)
		for _, policy := range []string{"read-only", "workspace-write"} {
			cmd := append([]string{"remote", "run", "--url", url, "--cwd", workspace, "--sandbox", policy}, "--", "sh", "-c", script)
			s.check(policy, withToken, cmd...)
			s.check(policy+", detached", harness.Run, "remote", "run", "--url", s.url, "--detach", "--name", policy, "--cwd", workspace, "--sandbox", policy, "--", "sh", "-c",
				"cat "+s.parent+"/retain/*/segment* "+s.parent+"/retain/*/record*; find "+s.parent+"; true")
			if _, errs, code := s.run("wait", policy); code != 0 {
				t.Errorf("%s, detached: exit code %d: %s", policy, code, errs)
			}
			s.check(policy+", detached", harness.Run, "remote", "logs", "--url", s.url, policy)
		}
		// A command moves a directory on the path of the state, to attack with the next command.
		_, _, _ = s.run("run", "--cwd", workspace, "--sandbox", "workspace-write", "--", "sh", "-c",
			fmt.Sprintf("mv %s %[1]s.moved; mv %[1]s/retain %[1]s/other; ln -sn other %[1]s/retain; true", s.parent))
		s.check("after renames", harness.Run, "remote", "run", "--url", s.url, "--cwd", workspace, "--sandbox", "read-only", "--", "sh", "-c",
			fmt.Sprintf("find %s; cat %[1]s/state*/*/*/*; true", workspace))
		s.checkFiles(backend, args)
	})
}

// TestLocalSandboxHidesState: a command of codex sandbox tries to read the state of the user's servers at its default places.
func TestLocalSandboxHidesState(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	home, env := harness.HomeDirectory(t, nil)
	state := filepath.Join(t.TempDir(), "codex", "detached")
	for _, dir := range []string{state, filepath.Join(home, "client-keys")} {
		harness.Must(t, os.MkdirAll(dir, 0o700))
		harness.Must(t, os.WriteFile(filepath.Join(dir, "f"), []byte(stateSecret), 0o600))
	}
	env = append(env, "XDG_STATE_HOME="+filepath.Dir(filepath.Dir(state)))
	script := fmt.Sprintf("cat %s/f %s/client-keys/f; for f in %[1]s/f %[2]s/client-keys/f; do echo changed > $f && echo DONE; done; echo ran", state, home)
	for _, policy := range [][]string{
		{"--read-only"},
		{"--workspace-write", "--cwd", home, "--writable-root", filepath.Dir(state)},
		{"--stricter", "--backend", machine.Landlock},
		{"--profile-file", "-"},
	} {
		stdin := fmt.Sprintf(`{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},`+
			`{"path":{"type":"path","path":%q},"access":"write"}]},"network":"restricted"}`, state)
		args := append([]string{"sandbox"}, policy...)
		if policy[0] == "--profile-file" {
			file := filepath.Join(t.TempDir(), "profile.json")
			harness.Must(t, os.WriteFile(file, []byte(stdin), 0o600))
			args[2] = file
		}
		out, errs, code := harness.RunWith(t, env, home, "", append(args, "--", "sh", "-c", script)...)
		if code != 0 || !strings.HasSuffix(out, "ran\n") || strings.Contains(out+errs, stateSecret) || strings.Contains(out, "DONE") {
			t.Errorf("%q: exit code %d, %q, %q", policy, code, out, errs)
		}
	}
	out, errs, code := harness.RunWith(t, env, home, "", "sandbox", "--backend", machine.Landlock, "--", "echo", "ran")
	if code != 0 || out != "ran\n" {
		t.Errorf("Landlock, which cannot hide anything: exit code %d, %q, %q", code, out, errs)
	}
}

// withToken runs codex as a client with the token.
func withToken(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	return harness.RunWith(t, append(os.Environ(), "CODEX_EXEC_SERVER_CONNECTION_TOKEN="+stateSecret), "-", stdin, args...)
}

// check runs codex and searches its output for the secret.
func (s *state) check(what string, run func(*testing.T, string, ...string) (string, string, int), args ...string) {
	s.t.Helper()
	out, errs, code := run(s.t, "", args...)
	if code != 0 {
		s.t.Errorf("%s: exit code %d, %q: %s", what, code, out, errs)
	}
	if strings.Contains(out+errs, stateSecret) || strings.Contains(out, "record.json") {
		s.t.Errorf("%s: the state is seen:\n%s%s", what, out, errs)
	}
}

// checkFiles makes confined file requests.
func (s *state) checkFiles(backend string, args []string) {
	s.t.Helper()
	records, err := filepath.Glob(s.parent + "/retain/*/record.json")
	if err != nil || len(records) == 0 {
		s.t.Fatalf("no records: %v", err)
	}
	sandbox := `{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]},"network":"restricted"},"cwd":"file:///"}`
	input := `{"id":1,"method":"initialize","params":{"clientName":"t"}}
{"method":"initialized"}
`
	for i, request := range []string{
		fmt.Sprintf(`"fs/readFile","params":{"path":"file://%s"`, records[0]),
		fmt.Sprintf(`"fs/readFile","params":{"path":"file://%s"`, s.dir+"/"+filepath.Base(filepath.Dir(records[0]))+"/record.json"),
		fmt.Sprintf(`"fs/walk","params":{"path":"file://%s","options":{"maxDepth":9,"maxDirectories":99,"maxEntries":99,"followDirectorySymlinks":true,"pruneHiddenDirectories":false}`, s.parent),
	} {
		input += fmt.Sprintf(`{"id":%d,"method":%s,"sandbox":%s}}`, i+2, request, sandbox) + "\n"
	}
	out, errs, code := harness.Run(s.t, input, append([]string{"exec-server", "--listen", "stdio", "--retain-dir", s.dir}, args...)...)
	if code != 0 || strings.Count(out, "\n") != 4 {
		s.t.Fatalf("%s: exit code %d, %s\n%s", backend, code, out, errs)
	}
	for _, line := range strings.Split(out, "\n")[1:] {
		refused := strings.Contains(line, `"error"`) && !strings.Contains(line, "-32602")
		if !refused && (strings.Contains(line, "record.json") || strings.Contains(line, `"dataBase64"`) || strings.Contains(line, `"error"`)) {
			s.t.Errorf("%s: a confined file request answers %s", backend, line)
		}
	}
}

// TestReplacedTokenIsHidden: if a file of the server is replaced, the new file is also hidden from
// requests whose helper was started before.
func TestReplacedTokenIsHidden(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	harness.NeedSandbox(t)
	ctx := t.Context()
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	harness.Must(t, os.WriteFile(token, []byte(stateSecret), 0o600))
	harness.Must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("readable"), 0o600))
	_, url := harness.Server(t, "--ws-auth", "capability-token", "--ws-token-file", token)
	client, err := execclient.DialWebSocket(ctx, url, execclient.Options{BearerToken: stateSecret})
	harness.Must(t, err)
	defer client.Close()
	files := client.FS().WithSandbox(execclient.ReadOnlySandbox())
	for range 20 {
		// The second read makes the server start a helper for the next one.
		for range 2 {
			if text, err := files.ReadFile(ctx, filepath.Join(dir, "file")); err != nil || string(text) != "readable" {
				t.Fatalf("got %q, %v", text, err)
			}
		}
		harness.Must(t, os.WriteFile(token+".new", []byte(stateSecret), 0o600))
		harness.Must(t, os.Rename(token+".new", token))
		if text, err := files.ReadFile(ctx, token); err == nil {
			t.Fatalf("the new token is read: %q", text)
		}
	}
}
