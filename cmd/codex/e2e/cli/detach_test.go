package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/testutil"
)

// detaching runs servers, one after the other, that share one directory of detached processes.
type detaching struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
	url string
}

func newDetaching(t *testing.T, args ...string) *detaching {
	t.Helper()
	return newDetachingIn(t, filepath.Join(t.TempDir(), "retain"), args...)
}

// newDetachingIn is newDetaching with the path of the directory, which may lead through links.
func newDetachingIn(t *testing.T, dir string, args ...string) *detaching {
	t.Helper()
	d := &detaching{t: t, dir: dir}
	d.start(args...)
	t.Cleanup(func() {
		// The processes must end, because they would keep the directory in use.
		d.end(syscall.SIGKILL)
		d.endKeepers()
	})
	return d
}

// endKeepers ends the keepers at the end of a test.
func (d *detaching) endKeepers() {
	for _, pid := range d.keepers() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	d.awaitNoKeepers(context.Background()) // the test's own context has already ended
}

// awaitNoKeepers waits until all keepers of the directory have ended.
func (d *detaching) awaitNoKeepers(ctx context.Context) {
	d.t.Helper()
	testutil.Eventually(ctx, d.t, "the end of the keepers", func() (string, bool) {
		left := d.keepers()
		return fmt.Sprint(left), len(left) == 0
	})
}

// start starts the next server.
func (d *detaching) start(args ...string) {
	d.t.Helper()
	d.cmd, d.url = harness.Server(d.t, append([]string{"--retain-dir", d.dir}, args...)...)
}

// end ends the server by a signal.
func (d *detaching) end(sig syscall.Signal) {
	_ = d.cmd.Process.Signal(sig)
	_ = d.cmd.Wait()
}

// keepers returns the keepers of the directory's processes. They have its directories open.
func (d *detaching) keepers() []int {
	var pids []int
	dir, err := filepath.EvalSymlinks(d.dir)
	if err != nil {
		return nil // the directory does not exist yet
	}
	names, _ := filepath.Glob("/proc/[0-9]*/fd/3")
	for _, name := range names {
		if to, err := os.Readlink(name); err == nil && filepath.Dir(to) == dir {
			if pid, err := strconv.Atoi(strings.Split(name, "/")[2]); err == nil && (d.cmd == nil || pid != d.cmd.Process.Pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// run runs codex remote with the current server.
func (d *detaching) run(command string, args ...string) (stdout, stderr string, code int) {
	d.t.Helper()
	return harness.Run(d.t, "", append([]string{"remote", command, "--url", d.url}, args...)...)
}

// must is like run. The command must succeed.
func (d *detaching) must(command string, args ...string) string {
	d.t.Helper()
	out, errs, code := d.run(command, args...)
	if code != 0 {
		d.t.Fatalf("remote %s %q: exit code %d\n%s", command, args, code, errs)
	}
	return out
}

// status returns the state of a process from ps. It returns "" if the process is not listed.
func (d *detaching) status(handle string) string {
	d.t.Helper()
	for line := range strings.Lines(d.must("ps", "--json")) {
		var p struct{ Handle, Status string }
		harness.Must(d.t, json.Unmarshal([]byte(line), &p))
		if p.Handle == handle {
			return p.Status
		}
	}
	return ""
}

// TestDetachedOutlivesServers starts a process. Its client ends, and its servers end in every
// possible way. The last server returns the output and the exit code of the process.
func TestDetachedOutlivesServers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	d := newDetaching(t)
	gate := filepath.Join(t.TempDir(), "gate")
	handle := strings.TrimSpace(d.must("run", "--detach", "--name", "job", "--", "sh", "-c",
		"echo first; while ! [ -e "+gate+" ]; do sleep 0.01; done; echo second; echo third >&2; exit 7"))
	if handle != "job" {
		t.Fatalf("the handle is %q", handle)
	}
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		d.end(sig)
		d.start()
		if s := d.status("job"); s != "running" {
			t.Fatalf("after %v the process is %q", sig, s)
		}
		if out := d.must("logs", "job"); out != "first\n" {
			t.Fatalf("after %v the output is %q", sig, out)
		}
	}
	if _, errs, code := d.run("run", "--detach", "--name", "job", "--", "true"); code != 127 || !strings.Contains(errs, "already") {
		t.Errorf("a second job: exit code %d, %q", code, errs)
	}
	if _, errs, code := d.run("forget", "job"); code != 1 || !strings.Contains(errs, "running") {
		t.Errorf("forget a running one: exit code %d, %q", code, errs)
	}
	harness.Must(t, os.WriteFile(gate, nil, 0o600))
	out, errs, code := d.run("logs", "--follow", "job")
	if out != "first\nsecond\n" || errs != "third\n" || code != 0 {
		t.Errorf("logs: exit code %d, %q, %q", code, out, errs)
	}
	if _, _, code := d.run("wait", "job"); code != 7 {
		t.Errorf("wait: exit code %d", code)
	}
	d.end(syscall.SIGKILL)
	d.start()
	if s := d.status("job"); s != "exited 7" {
		t.Errorf("at the end the process is %q", s)
	}
	d.must("forget", "job")
	if s := d.status("job"); s != "" {
		t.Errorf("the forgotten process is %q", s)
	}
	if _, errs, code := d.run("logs", "job"); code != 1 || !strings.Contains(errs, "no such detached process") {
		t.Errorf("its logs: exit code %d, %q", code, errs)
	}
	d.awaitNoKeepers(t.Context())
}

// TestDetachedEnds ends processes in all possible ways: killed by a client, signalled, and with
// their keepers, even while no server runs.
func TestDetachedEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	d := newDetaching(t)
	const script = "echo $$; exec sleep 1000"
	pidOf := func(handle string) (pid int) {
		testutil.Eventually(t.Context(), t, "the output of "+handle, func() (string, bool) {
			text := d.must("logs", handle)
			var err error
			pid, err = strconv.Atoi(strings.TrimSpace(text))
			return text, err == nil
		})
		return pid
	}
	for _, tt := range []struct {
		name, status string
		end          func(handle string)
		code         int
	}{
		{"killed", "exited 137", func(h string) { d.must("kill", h) }, 137},
		{"signalled", "exited 143", func(h string) { d.must("kill", "--signal", "SIGTERM", h) }, 143},
		{"keeper-terminated", "exited 137", func(string) { harness.Must(t, syscall.Kill(d.keepers()[0], syscall.SIGTERM)) }, 137},
		{"keeper-killed", "lost", func(string) { harness.Must(t, syscall.Kill(d.keepers()[0], syscall.SIGKILL)) }, 255},
		{"keeper-killed-without-server", "lost", func(string) {
			d.end(syscall.SIGKILL)
			keeper := d.keepers()[0]
			harness.Must(t, syscall.Kill(keeper, syscall.SIGKILL))
			harness.AwaitGone(t, keeper)
			d.start()
		}, 255},
	} {
		d.must("run", "--detach", "--name", tt.name, "--", "sh", "-c", script)
		pid := pidOf(tt.name)
		tt.end(tt.name)
		harness.AwaitGone(t, pid)
		if _, _, code := d.run("wait", tt.name); code != tt.code {
			t.Errorf("%s: wait exits with %d, want %d", tt.name, code, tt.code)
		}
		if s := d.status(tt.name); s != tt.status {
			t.Errorf("%s: status %q, want %q", tt.name, s, tt.status)
		}
		if out, _, _ := d.run("logs", tt.name); strings.TrimSpace(out) != strconv.Itoa(pid) {
			t.Errorf("%s: the output is %q", tt.name, out)
		}
		if tt.status != "lost" {
			if _, errs, code := d.run("kill", tt.name); code != 1 || !strings.Contains(errs, "has ended already") {
				t.Errorf("%s: killed again: %d %q", tt.name, code, errs)
			}
		}
		d.must("forget", tt.name)
	}
}

// TestDetachedRetention: a process writes more output than is retained. Either the oldest output is
// dropped and reported, or the process waits until a client reads.
func TestDetachedRetention(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	d := newDetaching(t)
	const lines = 400_000
	var whole strings.Builder
	for i := 1; i <= lines; i++ {
		fmt.Fprintf(&whole, "%d\n", i)
	}
	script := fmt.Sprintf("seq %d", lines)
	d.must("run", "--detach", "--name", "drops", "--retain-bytes", "1048576", "--", "sh", "-c", script)
	d.must("wait", "drops")
	out, errs, code := d.run("logs", "drops")
	if code != 3 || !strings.Contains(errs, "the output of the events 1 to ") || !strings.HasSuffix(whole.String(), out) || len(out) < 700_000 {
		t.Errorf("exit code %d, %d bytes, %q", code, len(out), errs)
	}
	d.must("run", "--detach", "--name", "waits", "--retain-bytes", "1048576", "--when-full", "wait", "--", "sh", "-c", script)
	testutil.Eventually(t.Context(), t, "a process that waits for room", func() (string, bool) {
		s := d.status("waits")
		return s, s == "waiting: output is full"
	})
	d.end(syscall.SIGKILL)
	d.start()
	if out := d.must("logs", "--follow", "--consume", "waits"); out != whole.String() {
		t.Errorf("%d bytes, want %d", len(out), whole.Len())
	}
	d.must("wait", "waits")
	if _, errs, code := d.run("run", "--detach", "--retain-bytes", "99999999999999", "--", "true"); code != 127 || !strings.Contains(errs, "--retain-bytes") {
		t.Errorf("too much: exit code %d, %q", code, errs)
	}
}

// TestDetachedOverStdio starts servers on standard input and output. Each ends with its client. The
// next one finds the user's process.
func TestDetachedOverStdio(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	home, env := harness.HomeDirectory(t, nil)
	env = append(env, "XDG_STATE_HOME="+t.TempDir())
	out, errs, code := harness.RunWith(t, env, home, "", "remote", "run", "--detach", "--name", "j", "--", "sh", "-c", "echo here; exit 4")
	if code != 0 || strings.TrimSpace(out) != "j" {
		t.Fatalf("exit code %d, %q, %q", code, out, errs)
	}
	if _, errs, code := harness.RunWith(t, env, home, "", "remote", "wait", "j"); code != 4 {
		t.Errorf("wait: exit code %d, %q", code, errs)
	}
	if out, errs, code := harness.RunWith(t, env, home, "", "remote", "logs", "j"); code != 0 || out != "here\n" {
		t.Errorf("logs: exit code %d, %q, %q", code, out, errs)
	}
}

// TestDetachedInSandbox: a detached process has the same sandbox as other processes, and the
// sandbox outlives the server.
func TestDetachedInSandbox(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	harness.NeedSandbox(t)
	d := newDetaching(t)
	target := filepath.Join(t.TempDir(), "new")
	gate := filepath.Join(t.TempDir(), "gate")
	d.must("run", "--detach", "--name", "box", "--sandbox", "read-only", "--", "sh", "-c",
		"while ! [ -e "+gate+" ]; do sleep 0.01; done; touch "+target+" && exit 0; exit 9")
	d.end(syscall.SIGKILL)
	harness.Must(t, os.WriteFile(gate, nil, 0o600))
	d.start()
	if _, errs, code := d.run("wait", "box"); code != 9 {
		t.Errorf("exit code %d, %q", code, errs)
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("the sandboxed process has written")
	}
	if _, errs, code := d.run("run", "--detach", "--sandbox", "read-only", "--allow-domain", "example.com", "--", "true"); code != 127 || !strings.Contains(errs, "network proxy") {
		t.Errorf("with a network proxy: exit code %d, %q", code, errs)
	}
}

// TestRefusedDetachedStarts: if the keeper of a detached process refuses its start, the
// client gets the reason at once, and the keeper ends.
func TestRefusedDetachedStarts(t *testing.T) {
	t.Parallel()
	d := newDetaching(t)
	c, err := execclient.DialWebSocket(t.Context(), d.url, execclient.Options{})
	harness.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	for name, change := range map[string]func(p *execproto.StartParams){
		"malformed": func(p *execproto.StartParams) { p.Sandbox = []byte(`{}`) },
		"unknown":   func(p *execproto.StartParams) { p.Sandbox = []byte(`{"permissions":{"type":"none"}}`) },
		"another-host": func(p *execproto.StartParams) {
			p.Sandbox = []byte(`{"permissions":{"type":"disabled"},"cwd":"file://server/x"}`)
		},
		"empty-scope":    func(p *execproto.StartParams) { p.ShellSnapshot = &execproto.ShellSnapshot{} },
		"no-such-binary": func(p *execproto.StartParams) { p.Argv = []string{"/nonexistent"} },
	} {
		params := execproto.StartParams{ProcessID: name, Argv: []string{"true"}, Cwd: "file:///"}
		change(&params)
		// The server itself would give up after a minute.
		ctx, cancel := context.WithTimeout(t.Context(), harness.Patience/2)
		if _, err := c.StartDetached(ctx, params); err == nil || ctx.Err() != nil {
			t.Errorf("%s: got error %v; want an error, ctx.Err() nil", name, err)
		}
		cancel()
	}
	d.awaitNoKeepers(t.Context())
}

// TestTheProgramIsRemoved: an upgrade has removed the program and its helpers while the server runs. What it starts afterwards,
// confined or detached, still starts.
func TestTheProgramIsRemoved(t *testing.T) {
	for _, programs := range [][]string{{"codex"}, {"codex", "codex-fs", "codex-linux-sandbox"}} {
		t.Run(strings.Join(programs, " "), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "old")
			harness.Must(t, harness.Install(dir, programs...))
			d := &detaching{t: t, dir: filepath.Join(t.TempDir(), "retain")}
			d.cmd, d.url = harness.ServerOf(t, filepath.Join(dir, "codex"), "--retain-dir", d.dir)
			t.Cleanup(d.endKeepers)
			harness.Must(t, os.RemoveAll(dir))
			for _, args := range [][]string{{}, {"--open-files", "50"}, {"--sandbox", "read-only"}, {"--detach", "--name", "kept"}, {"--detach", "--sandbox", "read-only"}} {
				if _, errs, code := d.run("run", append(args, "--", "true")...); code != 0 {
					t.Errorf("%q: got code %d, %s; want 0", args, code, errs)
				}
			}
			if _, errs, code := d.run("wait", "kept"); code != 0 {
				t.Errorf("wait: got code %d, %s; want 0", code, errs)
			}
		})
	}
}
