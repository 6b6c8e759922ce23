package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// TestServersKeepApart: servers of one user do not list each other's detached processes, and their
// names do not conflict. Each server finds the processes of the previous one at the same place.
func TestServersKeepApart(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	state := t.TempDir()
	sockets := t.TempDir()
	env := []string{"XDG_STATE_HOME=" + state}
	keepers := &detaching{t: t}
	t.Cleanup(func() {
		dirs, _ := filepath.Glob(state + "/codex/detached/*")
		for _, keepers.dir = range dirs {
			keepers.endKeepers()
		}
	})
	// Test both kinds of places, each with two servers at a time.
	for _, listen := range [][2]string{
		{"ws://127.0.0.1:0", "ws://127.0.0.1:0"},
		{"unix://" + sockets + "/a", "unix://" + sockets + "/b"},
	} {
		var servers [2]*detaching
		start := func(i int) {
			if servers[i] == nil {
				servers[i] = &detaching{t: t}
			}
			servers[i].cmd, servers[i].url = harness.ServerWith(t, env, "--listen", listen[i])
		}
		check := func(what string, i int) {
			t.Helper()
			own, other := [2]string{": one", ": two"}[i], [2]string{": two", ": one"}[i]
			if out := servers[i].must("ps", "--json"); !strings.Contains(out, own) || strings.Contains(out, other) {
				t.Errorf("%s, %s, the server of `%s` lists %s", listen[i], what, own, out)
			}
		}
		for i, name := range []string{"one", "two"} {
			start(i)
			servers[i].must("run", "--detach", "--name", "job", "--", "sh", "-c", ": "+name+"; exec sleep 1000")
		}
		check("while both run", 0)
		check("while both run", 1)
		for _, s := range servers {
			s.end(syscall.SIGKILL)
		}
		for i := range servers {
			start(i)
			check("after kill -9", i)
		}
		// Forgetting a process at one place does not affect a process at the other.
		servers[0].must("stop", "job")
		servers[0].must("forget", "job")
		check("after the other one has forgotten its process", 1)
	}
	// A user can share a directory on purpose.
	shared := filepath.Join(t.TempDir(), "shared")
	a := newDetachingIn(t, shared)
	a.must("run", "--detach", "--name", "job", "--", "sleep", "1000")
	_, url := harness.Server(t, "--retain-dir", shared)
	if out, _, _ := harness.Run(t, "", "remote", "ps", "--quiet", "--url", url); out != "job\n" {
		t.Errorf("with one directory the other server lists %q", out)
	}
	// --check-config creates no directory.
	_, errs, code := harness.RunWith(t, append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(state, "none")), "-", "", "exec-server", "--check-config")
	if _, err := os.Stat(filepath.Join(state, "none")); code != 0 || err == nil {
		t.Errorf("--check-config: %d %s, %v", code, errs, err)
	}
}
