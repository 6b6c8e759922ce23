package sandbox

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
)

// confined is a server with a workspace. Tests send it raw JSON-RPC messages.
type confined struct {
	t      *testing.T
	dir    string // parent of the workspace; its other entries are outside
	ws     string
	pid    int
	url    string
	before []int // descendants of the server before the first request
	*wire
}

// separate installs codex with its own helpers, once.
var separate = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(filepath.Dir(harness.Codex), "separate")
	return filepath.Join(dir, "codex"), harness.Install(dir, "codex", "codex-fs", "codex-linux-sandbox")
})

// onBoth runs a test with the single binary or with separate ones. If the machine has bwrap, it may
// use that backend, too: see testutil.Choice.
func onBoth(t *testing.T, test func(c *confined)) {
	layouts := []string{"single", "separate"}
	if _, err := exec.LookPath("bwrap"); err == nil {
		layouts = append(layouts, "bwrap")
	}
	for _, layout := range testutil.Choice(t.Name(), layouts) {
		t.Run(layout, func(t *testing.T) {
			binary := harness.Codex
			var args []string
			if layout == "bwrap" {
				args = []string{"--sandbox-backend", "bwrap"}
			}
			if layout == "separate" {
				var err error
				if binary, err = separate(); err != nil {
					t.Fatal(err)
				}
			}
			test(confinedBy(t, binary, args...))
		})
	}
}

func confinedBy(t *testing.T, binary string, args ...string) *confined {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	harness.Must(t, err)
	c := &confined{t: t, dir: dir, ws: filepath.Join(dir, "ws")}
	harness.Must(t, os.MkdirAll(filepath.Join(c.ws, "sub"), 0o755))
	harness.Must(t, os.WriteFile(filepath.Join(c.ws, "f"), []byte("text"), 0o644))
	harness.Must(t, os.WriteFile(filepath.Join(c.ws, "secret"), []byte("secret"), 0o644))
	harness.Must(t, os.WriteFile(filepath.Join(c.dir, "outside"), []byte("outside"), 0o644))
	// What belongs to a session ends with its connection.
	cmd, url := harness.ServerOf(t, binary, append(args, "--session-ttl", "0")...)
	c.pid, c.url = cmd.Process.Pid, url
	c.wire = connect(t, url)
	// When the server starts its first process, it also starts a watchdog.
	c.start("first", nil, "true")
	c.end("first")
	c.before = descendants(c.pid)
	return c
}

// Short names for the harness's helpers for JSON objects of requests.
type object = harness.Object

var (
	uri     = harness.FileURI
	at      = harness.PathEntry
	special = harness.SpecialEntry
	managed = harness.ManagedSandbox
	with    = harness.With
)

// usual returns a sandbox in which every path except one file is readable, and the workspace is writable.
func (c *confined) usual() object {
	return with(managed(special("root", "read"), special("project_roots", "write"), at(c.ws+"/secret", "deny")), "cwd", uri(c.ws))
}

// start starts a shell script.
func (c *confined) start(id string, sandbox any, script string, more ...any) object {
	c.t.Helper()
	return c.call("process/start", c.script(id, sandbox, script, more...))
}

func (c *confined) script(id string, sandbox any, script string, more ...any) object {
	return with(object{
		"processId": id, "argv": []string{"/bin/sh", "-c", script}, "cwd": uri(c.ws), "sandbox": sandbox,
		"env": object{"PATH": "/usr/bin:/bin"}, "tty": false,
	}, more...)
}

// descendants returns the descendants of a process.
func descendants(pid int) []int {
	parents := map[int]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, _ := os.ReadFile(name)
		_, rest, ok := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if !ok || fields[0] == "Z" {
			continue
		}
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		parents[child], _ = strconv.Atoi(fields[1])
	}
	var found []int
	for child, parent := range parents {
		for parent > 1 && parent != pid {
			parent = parents[parent]
		}
		if parent == pid {
			found = append(found, child)
		}
	}
	return found
}

// idleLaunchers is the number of launchers that a server keeps ready for the next requests.
const idleLaunchers = 2

// isIdleLauncher reports whether a process is a launcher that was started ahead of need and has
// started no process yet.
func isIdleLauncher(pid int) bool { return hasOption(pid, "--standby-fd") && len(children(pid)) == 0 }

// isJanitor reports whether a process is the janitor of a server's sandboxes.
func isJanitor(pid int) bool { return hasOption(pid, "--janitor-socket-fd") }

func hasOption(pid int, option string) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.Contains(string(line), "\x00"+option+"\x00")
}

// quiet waits until the server has only the processes that it had at first, and the idle launchers
// and the janitor.
func (c *confined) quiet() {
	c.t.Helper()
	c.until("processes are left", func() bool {
		idle := 0
		return !slices.ContainsFunc(descendants(c.pid), func(pid int) bool {
			if isIdleLauncher(pid) {
				idle++
				return idle > idleLaunchers
			}
			return !slices.Contains(c.before, pid) && !isJanitor(pid)
		})
	})
}

func (c *confined) until(what string, done func() bool) {
	c.t.Helper()
	testutil.Eventually(c.t.Context(), c.t, "an end of this: "+what, func() (string, bool) { return "it goes on", done() })
}

// names returns the names in the workspace.
func (c *confined) names() string {
	entries, err := os.ReadDir(c.ws)
	harness.Must(c.t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func (c *confined) is(name, want string) {
	c.t.Helper()
	if text, err := os.ReadFile(name); err != nil || string(text) != want {
		c.t.Errorf("%s: %q %v, want %q", name, text, err, want)
	}
}

func (c *confined) untouched() {
	c.t.Helper()
	if got := c.names(); got != "f secret sub" {
		c.t.Errorf("the workspace has %s", got)
	}
	c.is(c.ws+"/secret", "secret")
	c.is(c.dir+"/outside", "outside")
}

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// TestConfinedAnswers compares answers to confined requests with the rules of
// docs/spec/sandbox.md §5.
func TestConfinedAnswers(t *testing.T) {
	t.Parallel()
	onBoth(t, func(c *confined) {
		read := func(sandbox object, name string) object { return object{"path": uri(name), "sandbox": sandbox} }
		f := c.ws + "/f"
		roots := managed(special("project_roots", "read"))
		c.refuse("fs/readFile", read(roots, f), -32600, "file system sandbox context with dynamic permissions requires cwd")
		bad := managed(object{"path": object{"type": "path", "path": "file://server/share"}, "access": "read"})
		c.refuse("fs/readFile", read(bad, f), -32600, "invalid sandbox permission path URI: 'file://server/share' is invalid on 'linux'")
		c.refuse("process/start", c.script("p", bad, "true"), -32602, "invalid sandbox permission path URI: 'file://server/share' is invalid on 'linux'")
		c.refuse("process/start", c.script("p", with(roots, "cwd", "file://server/x"), "true"), -32602,
			"sandbox cwd URI `file://server/x` is not valid on this exec-server host: 'file://server/x' is invalid on 'linux'")
		c.refuse("process/start", c.script("p", with(roots, "workspaceRoots", []string{"file://server/x"}), "true"), -32602,
			"sandbox workspace root URI `file://server/x` is not valid on this exec-server host")
		c.refuse("fs/readFile", read(with(roots, "workspaceRoots", []string{"file://server/x"}), f), -32600,
			"file system sandbox workspace root is not native to this exec-server host: ")
		c.refuse("fs/readFile", read(with(roots, "windowsSandboxLevel", "loud"), f), -32602, "loud")
		c.refuse("fs/writeFile", object{"path": uri(f), "dataBase64": "", "sandbox": managed(special("root", "read"))}, -32603, "Read-only file system (os error 30)")
		c.refuse("fs/readFile", read(with(roots, "cwd", uri(c.ws)), c.dir+"/outside"), -32004, "No such file or directory (os error 2)")
		c.refuse("process/start", with(c.script("p", c.usual(), ""), "argv", []string{}), -32602, "argv must not be empty")
		// A rule of this project: without a level, the roots decide.
		for _, s := range []object{
			with(roots, "cwd", uri(c.ws+"/sub"), "workspaceRoots", []string{uri(c.ws)}),
			with(roots, "cwd", uri(c.ws), "windowsSandboxLevel", "disabled"),
			with(roots, "workspaceRoots", []string{uri(c.ws)}),
			with(roots, "cwd", uri(c.ws)),
		} {
			if got := c.call("fs/readFile", read(s, f)); got["dataBase64"] != encode("text") {
				t.Errorf(`%v: got %v, want got["dataBase64"] encode("text")`, s, got)
			}
		}
		c.refuse("fs/readFile", read(with(roots, "cwd", uri(c.ws), "workspaceRoots", []string{uri(c.ws + "/sub")}), f), -32004, "os error 2")
		// If the launcher is available, it reports a policy that it cannot enforce.
		harness.Must(c.t, os.Symlink(c.dir, c.ws+"/l"))
		crossing := managed(special("root", "read"), at(c.ws, "write"), at(c.ws+"/l/x", "deny"))
		const why = "cannot enforce sandbox deny-read path"
		c.refuse("fs/writeFile", object{"path": uri(f), "dataBase64": "", "sandbox": crossing}, -32603, "fs sandbox helper failed with status exit status: 125: codex-linux-sandbox: "+why)
		c.start("p", crossing, "echo ran")
		if e := c.end("p"); e.code != 125 || !e.denied || !strings.Contains(e.out, why) {
			t.Errorf("got %+v; want e.code 125, e.denied true, e.out with %q", e, why)
		}
		harness.Must(c.t, os.Remove(c.ws+"/l"))
		c.untouched()
		c.is(f, "text")
	})
}

func TestManyConfinedAtOnce(t *testing.T) {
	onBoth(t, func(c *confined) {
		s := c.usual()
		const many = 32
		ids := make([]string, 0, 2*many)
		for i := range many {
			name := strconv.Itoa(i)
			ids = append(ids,
				c.send("fs/writeFile", object{"path": uri(c.ws + "/" + name), "dataBase64": encode(name), "sandbox": s}),
				c.send("process/start", c.script(name, s, "echo "+name+"; ! mkdir .git 2>/dev/null")))
		}
		for _, id := range ids {
			if m := c.answer(id); m.Error != nil {
				t.Errorf("got %+v, want nil", m.Error)
			}
		}
		for i := range many {
			name := strconv.Itoa(i)
			if e := c.end(name); e.out != name+"\n" || e.code != 0 {
				t.Errorf("%s: got %+v; want e.out %v, e.code 0", name, e, name+"\n")
			}
			c.is(c.ws+"/"+name, name)
			harness.Must(t, os.Remove(c.ws+"/"+name))
		}
		c.quiet()
		c.until("placeholders are left: "+c.names(), func() bool { return c.names() == "f secret sub" })
		c.untouched()
	})
}
