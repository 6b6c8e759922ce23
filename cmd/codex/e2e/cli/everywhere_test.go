package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
)

// everywhere creates environments in one home directory, one for each way to reach a server: a
// port, a Unix socket, TLS, ssh and a rendezvous service.
func everywhere(t *testing.T) (home string, env, ways []string) {
	t.Helper()
	there, home, env := fakeSSH(t, "")
	harness.Must(t, os.MkdirAll(filepath.Join(there, ".local/bin"), 0o755))
	harness.Must(t, os.Symlink(harness.Codex, filepath.Join(there, ".local/bin/codex")))
	add := func(args ...string) {
		if _, errs, code := harness.RunWith(t, env, home, "", append([]string{"environments", "add"}, args...)...); code != 0 {
			t.Fatal(errs)
		}
	}
	_, direct := harness.Server(t)
	add("direct", "--url", direct)
	_, socket := harness.Server(t, "--listen", "unix://"+filepath.Join(t.TempDir(), "s"))
	add("socket", "--url", socket)
	ours := newAuthority(t, home, "ours")
	ours.server("server")
	_, secure := harness.Server(t, "--listen", "wss://127.0.0.1:0", "--tls-cert", filepath.Join(home, "server.pem"), "--tls-key", filepath.Join(home, "server.key"))
	add("secure", "--url", secure, "--ca", filepath.Join(home, "ours.pem"))
	add("ssh", "--ssh", "me@build")

	m := harness.Rendezvous(t, filepath.Join(t.TempDir(), "tokens.json"))
	executor := exec.Command(harness.Codex, "exec-server", "--remote", m.URL, "--environment-id", "meeting")
	executor.Env = append(os.Environ(), "CODEX_RENDEZVOUS_TOKEN="+m.Token("--role", "executor", "--environment", "meeting"))
	executor.Stderr = harness.ShownOnFailure(t)
	harness.Must(t, executor.Start())
	t.Cleanup(func() {
		_ = executor.Process.Kill()
		_ = executor.Wait()
	})
	token := filepath.Join(home, "token")
	harness.Must(t, os.WriteFile(token, []byte(m.Token("--role", "harness", "--environment", "meeting")), 0o600))
	add("meeting", "--rendezvous", m.URL, "--token-file", token)
	testutil.Eventually(t.Context(), t, "an executor that is connected", func() (string, bool) {
		out, errs, code := harness.RunWith(t, env, home, "", "environments", "check", "meeting")
		return out + errs, code == 0
	})
	return home, env, []string{"direct", "socket", "secure", "ssh", "meeting"}
}

// TestEverywhere performs the operations of a typical day over these ways: see
// testutil.Choice.
func TestEverywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	harness.NeedSandbox(t)
	home, env, ways := everywhere(t)
	t.Run("ways", func(t *testing.T) {
		for _, way := range testutil.Choice(t.Name(), ways) {
			t.Run(way, func(t *testing.T) {
				t.Parallel()
				d := &day{t: t, home: home, env: env, way: way}
				d.here, d.there = harness.Places(t)
				d.commands()
				d.looks()
				d.copies()
				d.changes()
				d.forwards()
				d.watches()
				d.leaves()
			})
		}
	})
}

// day performs the operations over one way.
type day struct {
	t           *testing.T
	home        string
	env         []string
	way         string
	here, there string // directories of the client and of the server
}

// try runs codex remote with input, and checks its output and exit code.
func (d *day) try(want string, code int, command string, args ...string) {
	d.t.Helper()
	if out, errs, got := d.run(command, args...); got != code || out != want {
		d.t.Errorf("%s %q: exit code %d, %q, want %d, %q\n%s", command, args, got, out, code, want, errs)
	}
}

func (d *day) run(command string, args ...string) (out, errs string, code int) {
	d.t.Helper()
	return harness.RunWith(d.t, d.env, d.home, "typed", append([]string{"remote", command, "--env", d.way}, args...)...)
}

func (d *day) commands() {
	d.try("typed", 3, "run", "--cwd", d.there, "--", "sh", "-c", "cat; exit 3")
	d.try("typed", 3, "run", "--cwd", d.there, "--sandbox", "workspace-write", "--", "sh", "-c", "cat > in; cat in; exit 3")
	d.try("", 2, "run", "--cwd", d.there, "--sandbox", "workspace-write", "--", "sh", "-c",
		fmt.Sprintf("echo x 2> /dev/null > %s/beside || exit 2", d.here))
	d.try("out\n", 0, "exec", "--no-input", "--cwd", d.there, "--", "echo", "out")
}

// looks lists the processes of the server. This client has no processes.
func (d *day) looks() {
	if out, errs, code := d.run("top", "--server"); code != 0 || !strings.Contains(out, "PROCESS") {
		d.t.Errorf("top: exit code %d, %q\n%s", code, out, errs)
	}
}

func (d *day) copies() {
	source := filepath.Join(d.here, "source")
	for i := range 20 {
		writeText(d.t, filepath.Join(source, fmt.Sprintf("d%d/f%d", i%3, i)), strings.Repeat("x", i*1000))
	}
	harness.Must(d.t, os.Symlink("d0/f0", filepath.Join(source, "link")))
	d.try("", 0, "cp", "-r", source, ":"+d.there+"/copied")
	d.try("", 0, "cp", "-r", ":"+d.there+"/copied", d.here+"/back")
	d.same(source, d.there+"/copied")
	d.same(source, d.here+"/back")
	d.try("", 0, "sync", "-q", source, ":"+d.there+"/synced")
	writeText(d.t, filepath.Join(source, "d1/new"), "new")
	harness.Must(d.t, os.Remove(filepath.Join(source, "d1/f1")))
	d.try("", 0, "sync", "-q", "--delete", source, ":"+d.there+"/synced")
	d.same(source, d.there+"/synced")
	d.try("", 0, "sync", "-q", ":"+d.there+"/synced", d.here+"/fetched")
	d.same(source, d.here+"/fetched")
}

// same compares two trees.
func (d *day) same(a, b string) {
	d.t.Helper()
	if out, err := exec.Command("diff", "-r", "--no-dereference", a, b).CombinedOutput(); err != nil {
		d.t.Errorf("%s and %s: %v\n%s", a, b, err, out)
	}
}

func (d *day) changes() {
	d.try("", 0, "mkdir", d.there+"/made")
	d.try("", 0, "cp", "-", ":"+d.there+"/made/a")
	d.try("", 0, "mv", d.there+"/made/a", d.there+"/made/b")
	d.try("", 0, "ln", "-s", "b", d.there+"/made/c")
	d.try("b\nc\n", 0, "ls", d.there+"/made")
	d.try("typed", 0, "cat", d.there+"/made/c")
	d.try("", 0, "rm", "-r", d.there+"/made")
	d.try("", 1, "cat", d.there+"/made/c")
}

func (d *day) forwards() {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer web.Close()
	cmd := exec.Command(harness.Codex, "remote", "forward", "--env", d.way, "-W", strings.TrimPrefix(web.URL, "http://"))
	cmd.Env = d.env
	cmd.Stdin = strings.NewReader("GET / HTTP/1.0\r\n\r\n")
	if out, err := cmd.Output(); err != nil || !strings.HasSuffix(string(out), "hello") {
		d.t.Errorf("forward -W: %q, %v", out, err)
	}
}

func (d *day) watches() {
	dir := filepath.Join(d.there, "watched")
	harness.Must(d.t, os.Mkdir(dir, 0o755))
	next := linesWith(d.t, d.env, "remote", "watch", "--env", d.way, dir)
	awaitWatch(d.t, dir, next)
	harness.Must(d.t, os.WriteFile(filepath.Join(dir, "new"), nil, 0o644))
	got := next()
	for strings.HasSuffix(got, "/begin") {
		got = next()
	}
	if want := "created    " + dir + "/new"; got != want {
		d.t.Errorf("watch tells %q, want %q", got, want)
	}
}

// leaves starts a process, disconnects and connects again.
func (d *day) leaves() {
	const name = "left" // each server has its own directory, so the name is free
	handle, errs, code := d.run("run", "--detach", "--name", name, "--", "sh", "-c", "echo first; exec sleep 1000")
	if code != 0 {
		d.t.Fatal(errs)
	}
	handle = strings.TrimSpace(handle)
	harness.Eventually(d.t, "the output of what was left", func() []string {
		if out, _, _ := d.run("logs", handle); out != "first\n" {
			return []string{out}
		}
		return nil
	})
	if d.way == "meeting" {
		d.strangers(name)
	}
	d.try("", 0, "kill", name)
	d.try("", 137, "wait", name)
	d.try("first\n", 0, "logs", name)
	d.try("", 0, "forget", name)
}

// strangers looks for the process as another client. It has the same token and another key.
func (d *day) strangers(name string) {
	home := d.t.TempDir()
	text, err := os.ReadFile(filepath.Join(d.home, "environments.toml"))
	harness.Must(d.t, err)
	harness.Must(d.t, os.WriteFile(filepath.Join(home, "environments.toml"), text, 0o600))
	other := *d
	other.env = append(slices.Clone(d.env), "CODEX_HOME="+home)
	if out, errs, code := other.run("ps", "--json"); code != 0 || out != "" {
		d.t.Errorf("another client lists %q, %d %s", out, code, errs)
	}
	for _, command := range []string{"logs", "attach", "kill", "forget"} {
		if out, errs, code := other.run(command, name); code == 0 || !strings.Contains(errs, "you have no such ") {
			d.t.Errorf("another client, %s: %q, %d %s", command, out, code, errs)
		}
	}
	keys, err := filepath.Glob(filepath.Join(d.home, "client-keys", "*.key"))
	if err != nil || len(keys) != 1 {
		d.t.Errorf("the keys of the client are %q, %v", keys, err)
	}
}
