package sandbox

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// idle waits until the server has its idle launchers, and returns them.
func (c *confined) idle() []int {
	c.t.Helper()
	var found []int
	c.until("launchers are missing", func() bool {
		found = slices.DeleteFunc(descendants(c.pid), func(pid int) bool { return !isIdleLauncher(pid) })
		return len(found) == idleLaunchers
	})
	return found
}

// cgroupOfPlain returns the cgroup of the process without a sandbox.
func (c *confined) cgroupOfPlain() string {
	for _, pid := range descendants(c.pid) {
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.HasPrefix(string(line), "/bin/sh\x00") {
			return cgroupOf(pid)
		}
	}
	c.t.Fatal("the process without a sandbox is gone")
	return ""
}

// cgroupOf returns the cgroup of a process according to /proc.
func cgroupOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// foreign reports whether a descriptor is not one of those that a waiting launcher has. The Go
// runtime reads its processor limit from cgroups, so these files are permitted.
func foreign(to string) bool {
	return to != os.DevNull && !strings.HasPrefix(to, "socket:") && !strings.HasPrefix(to, "anon_inode:") && !strings.HasPrefix(to, "/sys/fs/cgroup/")
}

// TestLaunchersAhead: a waiting launcher carries out the next request, and the server starts
// another one in its place. Before the request, only its socket is open. Its children are in the
// cgroup of the process. A killed launcher is replaced, too, and the next request gets a new one.
func TestLaunchersAhead(t *testing.T) {
	t.Parallel()
	onBoth(t, func(c *confined) {
		s := c.usual()
		c.start("first of all", with(managed(special("root", "read")), "cwd", uri(c.ws)), "true")
		c.end("first of all")
		c.start("plain", nil, "echo ready; read x", "pipeStdin", true)
		c.saying("plain", "ready")
		waiting := c.idle()
		plain := c.cgroupOfPlain()
		// A newly started launcher still has its program open.
		c.until("descriptors of a launcher", func() bool {
			return !slices.ContainsFunc(waiting, func(pid int) bool { return slices.ContainsFunc(descriptors(pid), foreign) })
		})
		c.start("used", s, "echo ready; read x", "pipeStdin", true)
		c.saying("used", "ready")
		used := slices.IndexFunc(waiting, func(pid int) bool { return len(children(pid)) > 0 })
		if used < 0 {
			t.Fatal("no launcher that was waiting has made the sandbox")
		}
		for _, pid := range descendants(waiting[used]) {
			// Without cgroups, all processes are in the server's cgroup.
			if got := cgroupOf(pid); path.Dir(got) != path.Dir(plain) {
				t.Errorf("the process %d is in the cgroup %s, one without a sandbox in %s", pid, got, plain)
			}
		}
		for _, pid := range c.idle() {
			harness.Must(t, syscall.Kill(pid, syscall.SIGKILL))
		}
		for i := range 4 {
			id := fmt.Sprint("after the kill ", i)
			c.start(id, s, "exit 3")
			if e := c.end(id); e.code != 3 {
				t.Errorf("got %+v, want e.code 3", e)
			}
		}
		c.call("process/terminate", object{"processId": "used"})
		if e := c.end("used"); e.code != 137 {
			t.Errorf("got %+v, want e.code 137", e)
		}
		c.call("process/terminate", object{"processId": "plain"})
		c.end("plain")
		c.quiet()
	})
}
