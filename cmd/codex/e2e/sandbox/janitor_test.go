package sandbox

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// janitor waits until the server has exactly one janitor, other than the process not, and returns
// it.
func (c *confined) janitor(not int) int {
	c.t.Helper()
	var found []int
	c.until("there is no janitor, or more than one", func() bool {
		found = slices.DeleteFunc(descendants(c.pid), func(pid int) bool { return !isJanitor(pid) })
		return len(found) == 1 && found[0] != not
	})
	return found[0]
}

// covered reports whether the workspace has placeholders.
func (c *confined) covered() bool {
	names := c.names()
	return strings.Contains(names, ".codex") && strings.Contains(names, ".agents")
}

// launcherOf returns the launcher of the sandbox in which a process has the word in its command line.
func (c *confined) launcherOf(word string) int {
	c.t.Helper()
	for _, text := range children(c.pid) {
		pid, err := strconv.Atoi(text)
		harness.Must(c.t, err)
		for _, child := range descendants(pid) {
			if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child)); err == nil && strings.Contains(string(line), word) {
				return pid
			}
		}
	}
	c.t.Fatal("there is no launcher of", word)
	return 0
}

// TestOneJanitor: the sandboxes of a server share a janitor. It removes the leftovers of a killed
// launcher, and retains nothing for ended sandboxes. If it is killed itself, the next sandbox gets
// another one.
func TestOneJanitor(t *testing.T) {
	t.Parallel()
	onBoth(t, func(c *confined) {
		s := c.usual()
		for _, id := range []string{"one", "two"} {
			c.start(id, s, "echo ready; read "+id, "pipeStdin", true)
			c.saying(id, "ready")
		}
		janitor := c.janitor(0)
		if !c.covered() {
			t.Fatal("there are no placeholders: nothing is tested")
		}
		harness.Must(t, syscall.Kill(c.launcherOf("read one"), syscall.SIGKILL))
		c.end("one")
		if !c.covered() {
			t.Error("the second sandbox is not covered any more")
		}
		harness.Must(t, syscall.Kill(c.launcherOf("read two"), syscall.SIGKILL))
		c.end("two")
		c.until("placeholders", func() bool { return c.names() == "f secret sub" })
		c.until("descriptors of the janitor", func() bool {
			return !slices.ContainsFunc(descriptors(janitor), func(to string) bool { return strings.HasPrefix(to, c.dir) })
		})

		c.start("third", s, "echo ready; read third", "pipeStdin", true)
		c.saying("third", "ready")
		harness.Must(t, syscall.Kill(janitor, syscall.SIGKILL))
		c.until("the janitor that was killed", func() bool { return syscall.Kill(janitor, 0) != nil })
		c.start("fourth", s, "exit 3")
		if e := c.end("fourth"); e.code != 3 {
			t.Errorf("got %+v, want e.code 3", e)
		}
		c.janitor(janitor)
		c.call("process/write", object{"processId": "third", "chunk": encode("\n"), "writeId": "w"})
		if e := c.end("third"); e.code != 0 {
			t.Errorf("got %+v, want e.code 0", e)
		}
		c.untouched()
		c.quiet()
	})
}
