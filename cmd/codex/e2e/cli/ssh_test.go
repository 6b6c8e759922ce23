package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/testutil"
)

// fakeSSH puts a program ssh on the PATH that runs commands on this machine, in its own home
// directory. before is a script that it runs first. It returns the directory and the environment.
func fakeSSH(t *testing.T, before string) (there, home string, env []string) {
	t.Helper()
	dir := t.TempDir()
	there = filepath.Join(dir, "there")
	harness.Must(t, os.MkdirAll(there, 0o755))
	script := "#!/bin/sh\nHOME=" + there + "; export HOME; PATH=/usr/bin:/bin; unset CODEX_HOME\n" + before + `
while [ "$1" != -- ]; do shift; done
[ "$2" = me@build ] || { echo "ssh: Could not resolve hostname $2: Name or service not known" >&2; exit 255; }
exec sh -c "$3"
`
	harness.Must(t, testutil.WriteProgram(filepath.Join(dir, "ssh"), []byte(script)))
	home, env = harness.HomeDirectory(t, nil)
	return there, home, append(env, "PATH="+dir+":"+os.Getenv("PATH"))
}

func TestSSHEnvironment(t *testing.T) {
	t.Parallel()
	there, home, env := fakeSSH(t, "echo Welcome; echo 'motd on stderr' >&2")
	run := func(args ...string) (string, string, int) { return harness.RunWith(t, env, home, "", args...) }
	if out, errs, code := run("environments", "add", "build", "--ssh", "me@build", "--default"); code != 0 || !strings.HasPrefix(out, "Added build to ") {
		t.Fatalf(`got exit code %d, stdout %q, stderr %q; want exit code 0, stdout beginning with "Added build to "`, code, out, errs)
	}
	if _, errs, code := run("remote", "run", "--", "true"); code != 255 || !strings.Contains(errs, "ssh me@build: codex is not installed on that machine") || !strings.Contains(errs, "by codex environments install build,") {
		t.Errorf("without codex there: %d %q", code, errs)
	}
	harness.Must(t, os.MkdirAll(filepath.Join(there, ".local/bin"), 0o755))
	harness.Must(t, os.Symlink(harness.Codex, filepath.Join(there, ".local/bin/codex")))
	out, errs, code := run("remote", "run", "--", "sh", "-c", `echo "$HOME"; exit 3`)
	if code != 3 || out != there+"\n" || errs != "" {
		t.Errorf("%d %q %q, want 3, the home directory of the other machine, and nothing of logs and greetings", code, out, errs)
	}
	if out, errs, code := run("environments", "check", "build"); code != 0 || !strings.Contains(out, "build  ok") {
		t.Errorf(`got exit code %d, stdout %q, stderr %q; want exit code 0, stdout with "build  ok"`, code, out, errs)
	}
	if out, _, code := run("environments", "remove", "build"); code != 0 || !strings.HasPrefix(out, "Removed build from ") {
		t.Errorf(`got exit code %d, stdout %q; want exit code 0, stdout beginning with "Removed build from "`, code, out)
	}
}

func TestSSHFailures(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"me@build: Permission denied (publickey).":                 "no password is asked for here",
		"Host key verification failed.":                            "try ssh me@build true",
		"ssh: connect to host build port 22: Connection timed out": "ssh me@build: ssh: connect to host build port 22: Connection timed out",
	} {
		_, home, env := fakeSSH(t, "echo '"+said+"' >&2; exit 255")
		if _, errs, code := harness.RunWith(t, env, home, "", "environments", "add", "build", "--ssh", "me@build"); code != 0 {
			t.Fatal(errs)
		}
		_, errs, code := harness.RunWith(t, env, home, "", "remote", "--env", "build", "run", "--", "true")
		if code != 255 || !strings.Contains(errs, want) || strings.Contains(errs, "\n"+said) {
			t.Errorf("%q: %d %q, want %q", said, code, errs, want)
		}
	}
}

// TestSSHInstall: the command copies this program to machines of the same platform only.
func TestSSHInstall(t *testing.T) {
	t.Parallel()
	there, home, env := fakeSSH(t, "echo Welcome")
	run := func(args ...string) (string, string, int) { return harness.RunWith(t, env, home, "", args...) }
	if _, errs, code := run("environments", "add", "build", "--ssh", "me@build", "--install"); code != 0 || !strings.Contains(errs, "copied this program") {
		t.Fatalf(`got exit code %d, stderr %q; want exit code 0, stderr with "copied this program"`, code, errs)
	}
	copied := filepath.Join(there, ".local/share/codex-exec-server/codex")
	harness.Must(t, os.Remove(copied))
	if _, errs, code := run("environments", "install", "build"); code != 0 || !strings.Contains(errs, "copied this program") {
		t.Fatalf(`got exit code %d, stderr %q; want exit code 0, stderr with "copied this program"`, code, errs)
	}
	if _, errs, code := run("environments", "install", "local"); code != 1 || !strings.Contains(errs, "is not one of ssh") {
		t.Errorf("install local: %d %q", code, errs)
	}
	if out, errs, code := run("remote", "--env", "build", "run", "--", "echo", "there"); code != 0 || out != "there\n" {
		t.Errorf("got exit code %d, stdout %q, stderr %q; want exit code 0, stdout %q", code, out, errs, "there\n")
	}
	if info, err := os.Stat(copied); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the copy: %v, %v", info, err)
	}
	_, home, env = fakeSSH(t, `uname() { echo "SunOS sun4v"; }; while [ "$1" != -- ]; do shift; done; case "$3" in *uname*) uname; exit;; esac; exit 1`)
	_, errs, code := harness.RunWith(t, env, home, "", "environments", "add", "build", "--ssh", "me@build", "--install")
	if want := "that machine is SunOS sun4v, and the server runs on Linux only"; code != 1 || !strings.Contains(errs, want) {
		t.Errorf("%d %q, want %q", code, errs, want)
	}
	if _, err := os.Stat(filepath.Join(home, "environments.toml")); err == nil {
		t.Error("an environment that could not be installed was added")
	}
}

// TestRendezvousEnvironment uses an environment of a rendezvous service that the file defines.
func TestRendezvousEnvironment(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	home, env := harness.HomeDirectory(t, map[string]string{"token": "secret\n"})
	run := func(args ...string) (string, string, int) { return harness.RunWith(t, env, home, "", args...) }
	if _, errs, code := run("environments", "add", "box", "--rendezvous", "https://127.0.0.1:1", "--token-file", filepath.Join(home, "token")); code != 0 {
		t.Fatal(errs)
	}
	harness.Must(t, os.Truncate(filepath.Join(home, "token"), 0))
	if out, _, _ := run("environments", "list"); !strings.Contains(out, "box    noise  https://127.0.0.1:1 (box)") {
		t.Errorf("listed %q", out)
	}
	if _, errs, code := run("remote", "--env", "box", "run", "--", "true"); code != 255 || !strings.Contains(errs, "is empty") {
		t.Errorf(`got exit code %d, stderr %q; want exit code 255, stderr with "is empty"`, code, errs)
	}
}

// TestConnectForCodexCLI starts the programs that environments add writes, as Codex CLI does, and runs
// a command through each. TestRemoteEnvironment does the same for a rendezvous service.
func TestConnectForCodexCLI(t *testing.T) {
	t.Parallel()
	there, home, env := fakeSSH(t, "echo Welcome")
	harness.Must(t, os.MkdirAll(filepath.Join(there, ".local/bin"), 0o755))
	harness.Must(t, os.Symlink(harness.Codex, filepath.Join(there, ".local/bin/codex")))
	token := filepath.Join(home, "token")
	harness.Must(t, os.WriteFile(token, []byte(strings.Repeat("secret", 6)+"\n"), 0o600))
	_, url := harness.Server(t, "--ws-auth", "capability-token", "--ws-token-file", token)
	add := func(args ...string) (string, int) {
		_, errs, code := harness.RunWith(t, env, home, "", append([]string{"environments", "add"}, args...)...)
		return errs, code
	}
	for _, args := range [][]string{{"build", "--ssh", "me@build"}, {"devbox", "--url", url, "--token-file", token}, {"lost", "--ssh", "me@nowhere"}} {
		if errs, code := add(args...); code != 0 {
			t.Fatalf("add %v: %d, %s", args, code, errs)
		}
	}
	for _, id := range []string{"build", "devbox"} {
		program := harness.WrittenProgram(t, home, env, id)
		c, err := execclient.StartCommand(t.Context(), program, execclient.Options{})
		harness.Must(t, err)
		out, err := c.CommandContext(t.Context(), "sh", "-c", "echo there; exec 2>&1; echo done").Output()
		if err != nil || string(out) != "there\ndone\n" {
			t.Errorf("%s: got %q, %v", id, out, err)
		}
		harness.Must(t, c.Close())
	}
	program := harness.WrittenProgram(t, home, env, "lost")
	said := new(strings.Builder)
	program.Stderr = said
	if c, err := execclient.StartCommand(t.Context(), program, execclient.Options{}); err == nil {
		t.Error("connected to nowhere")
		_ = c.Close()
	}
	if !strings.Contains(said.String(), "Error: ssh me@nowhere: ssh: Could not resolve hostname") {
		t.Errorf("got stderr %q, want the reason of ssh", said)
	}

	harness.Must(t, os.Chmod(token, 0o644))
	if errs, code := add("open", "--url", url, "--token-file", token); code != 1 || !strings.Contains(errs, "it has mode 0644: other users may read or change it; run `chmod 600` on it") {
		t.Errorf("a token for everybody: %d, %s", code, errs)
	}
}
