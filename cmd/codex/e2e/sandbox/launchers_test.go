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

// idle waits until the server has the launchers that it keeps, and returns them.
func (c *confined) idle() []int {
	c.t.Helper()
	var found []int
	c.until("launchers are missing", func() bool {
		found = slices.DeleteFunc(descendants(c.pid), func(pid int) bool { return !isIdleLauncher(pid) })
		return len(found) == idleLaunchers
	})
	return found
}

// ahead waits until launchers have made so many sandboxes ahead, and returns them.
func (c *confined) ahead(n int) []int {
	c.t.Helper()
	var found []int
	c.until("sandboxes are missing", func() bool {
		found = slices.DeleteFunc(descendants(c.pid), func(pid int) bool { return aheadOf(pid) == 0 })
		return len(found) == n
	})
	return found
}

// cgroupOfPlain is the cgroup of the process without a sandbox.
func (c *confined) cgroupOfPlain() string {
	for _, pid := range descendants(c.pid) {
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.HasPrefix(string(line), "/bin/sh\x00") {
			return cgroupOf(pid)
		}
	}
	c.t.Fatal("the process without a sandbox is gone")
	return ""
}

// cgroupOf is the cgroup of a process, as /proc says it.
func cgroupOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// foreign reports whether a descriptor is not one that a launcher has while it waits.
// The Go runtime reads its share of the processors from cgroups.
func foreign(to string) bool {
	return to != os.DevNull && !strings.HasPrefix(to, "socket:") && !strings.HasPrefix(to, "anon_inode:") && !strings.HasPrefix(to, "/sys/fs/cgroup/")
}

// TestLaunchersAhead: a launcher that waits carries out the next request, holds
// nothing but its socket before, and is replaced. What it starts is in the cgroup of
// the process. A launcher that was killed is replaced too, and the request that would
// have had it gets one of its own.
func TestLaunchersAhead(t *testing.T) {
	onBoth(t, func(c *confined) {
		s := c.usual()
		// Under another policy, so that no sandbox is made ahead for what follows.
		c.start("first of all", with(managed(special("root", "read")), "cwd", uri(c.ws)), "true")
		c.end("first of all")
		c.start("plain", nil, "echo ready; read x", "pipeStdin", true)
		c.saying("plain", "ready")
		waiting := c.idle()
		plain := c.cgroupOfPlain()
		// A launcher that has just been started still holds its program.
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
			// Without cgroups all are in that of the server.
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
				t.Errorf("%+v", e)
			}
		}
		c.call("process/terminate", object{"processId": "used"})
		if e := c.end("used"); e.code != 137 {
			t.Errorf("%+v", e)
		}
		c.call("process/terminate", object{"processId": "plain"})
		c.end("plain")
		c.quiet()
	})
}

// TestSandboxesAhead: the command of a policy that was used before runs in a sandbox that a
// launcher has made ahead, in the cgroup of the process. One of another policy does not.
func TestSandboxesAhead(t *testing.T) {
	onBoth(t, func(c *confined) {
		t := c.t
		s := c.usual()
		c.start("used", s, "true")
		c.end("used")
		c.idle()
		if strings.HasSuffix(t.Name(), "/bwrap") {
			// Namespaces alone are made ahead.
			c.ahead(0)
			return
		}
		// Another program that mounts something has the sandbox made again by none.
		shown := false
		for i := 0; i < 8 && !shown; i++ {
			waiting := c.ahead(1)[0]
			init := aheadOf(waiting)
			id := fmt.Sprint("again ", i)
			c.start(id, s, "echo ready; read x", "pipeStdin", true)
			c.saying(id, "ready")
			shown = slices.Equal(descendants(waiting)[:1], []int{init}) && len(children(init)) == 1
			for _, pid := range descendants(waiting) {
				if got := cgroupOf(pid); got != cgroupOf(init) || got == cgroupOf(waiting) && got != cgroupOf(c.pid) {
					t.Errorf("the process %d is in the cgroup %s, the init in %s", pid, got, cgroupOf(init))
				}
			}
			c.call("process/write", object{"processId": id, "chunk": encode("\n"), "writeId": "w"})
			if e := c.end(id); e.code != 0 {
				t.Errorf("%+v", e)
			}
		}
		if !shown {
			t.Error("no command has run in a sandbox that was made ahead")
		}
		waiting := aheadOf(c.ahead(1)[0])
		c.start("other", with(managed(special("root", "read")), "cwd", uri(c.ws)), "echo ready; read x", "pipeStdin", true)
		c.saying("other", "ready")
		if len(children(waiting)) != 0 {
			t.Error("a command of another policy runs in the sandbox that was made ahead")
		}
		c.call("process/write", object{"processId": "other", "chunk": encode("\n"), "writeId": "w"})
		c.end("other")
		c.ahead(2)
		c.untouched()
		c.quiet()
	})
}

// TestSandboxesAheadOfFileRequests: a file request that changes nothing is served in a sandbox that a launcher has made ahead,
// under a policy that was not used before, too, and sees nothing of what that policy denies.
func TestSandboxesAheadOfFileRequests(t *testing.T) {
	onBoth(t, func(c *confined) {
		t := c.t
		harness.Must(t, os.Mkdir(c.ws+"/closed", 0o755))
		harness.Must(t, os.WriteFile(c.ws+"/closed/file", []byte("secret"), 0o644))
		policy := func(more ...object) object {
			return with(managed(append([]object{special("root", "read")}, more...)...), "cwd", uri(c.ws))
		}
		read := func(name string, sandbox object) object { return object{"path": uri(c.ws + name), "sandbox": sandbox} }
		c.call("fs/readFile", read("/secret", policy()))
		c.idle()
		if strings.HasSuffix(t.Name(), "/bwrap") {
			c.ahead(0)
			return
		}
		// Another program that mounts something has the sandbox made again by none.
		shown := false
		for i := 0; i < 8 && !shown; i++ {
			init := aheadOf(c.ahead(1)[0])
			// The helper of a watch lives as long as the watch.
			denying := policy(at(c.ws+"/closed", "deny"), at(fmt.Sprint("/usr/none-", i), "read"))
			c.call("fs/watch", object{"watchId": 1, "path": uri(c.ws), "recursive": true, "sandbox": denying})
			shown = len(children(init)) == 1
			c.refuse("fs/watch", object{"watchId": 2, "path": uri(c.ws + "/closed"), "sandbox": denying}, -32600, "Permission denied")
			c.refuse("fs/readFile", read("/closed/file", denying), -32600, "Permission denied")
			harness.Must(t, os.WriteFile(c.ws+"/closed/new", nil, 0o644))
			harness.Must(t, os.WriteFile(fmt.Sprint(c.ws, "/open", i), nil, 0o644))
			if got := c.changes(fmt.Sprint("open", i)); strings.Contains(strings.Join(got, " "), "closed/") {
				t.Errorf("told %q", got)
			}
			c.call("fs/unwatch", object{"watchId": 1})
		}
		if !shown {
			t.Error("no file request was served in a sandbox that was made ahead")
		}
		// What changes something, and what is denied by a pattern, has a sandbox of its own.
		c.call("fs/writeFile", object{"path": uri(c.ws + "/new"), "dataBase64": encode("x"), "sandbox": policy(special("project_roots", "write"))})
		pattern := object{"path": object{"type": "glob_pattern", "pattern": c.ws + "/clos*"}, "access": "deny"}
		c.refuse("fs/readFile", read("/closed/file", policy(pattern)), -32600, "Permission denied")
		c.quiet()
	})
}
