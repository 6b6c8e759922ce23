//go:build linux

package sandbox

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
	"github.com/gorilla/websocket"
)

// fetchEnv makes this program a client that fetches a URL through the proxies
// of its environment, and then tries to reach an address directly.
const fetchEnv = "E2E_FETCH"

func init() {
	direct := os.Getenv(fetchEnv)
	if direct == "" {
		return
	}
	r, err := http.Get("http://far.example/page")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	text, _ := io.ReadAll(r.Body)
	fmt.Printf("%s", text)
	if _, err := net.DialTimeout("tcp", direct, harness.Patience); err == nil {
		fmt.Println("and direct")
	}
	os.Exit(0)
}

// confined is a server with a workspace, spoken to in raw JSON-RPC.
type confined struct {
	t      *testing.T
	dir    string // the workspace's parent: what lies in it and not in ws is outside
	ws     string
	pid    int
	url    string
	before []int // descendants of the server before anything was asked
	*wire
}

// separate lays out codex with helpers of their own, once.
var separate = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(filepath.Dir(harness.Codex), "separate")
	return filepath.Join(dir, "codex"), harness.Install(dir, "codex", "codex-fs", "codex-linux-sandbox")
})

// onBoth runs a test on the single binary and on separate ones, and, where
// there is a bwrap, with that backend.
func onBoth(t *testing.T, test func(c *confined)) {
	layouts := []string{"single", "separate"}
	if _, err := exec.LookPath("bwrap"); err == nil {
		layouts = append(layouts, "bwrap")
	}
	for _, layout := range layouts {
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
	single := harness.Codex
	harness.Codex = binary
	cmd, url := harness.Server(t, args...)
	harness.Codex = single
	c.pid, c.url = cmd.Process.Pid, url
	c.wire = connect(t, url)
	// With the first process the server starts a watchdog.
	c.start("first", nil, "true")
	c.end("first")
	c.before = descendants(c.pid)
	return c
}

// wire is a connection.
type wire struct {
	t    *testing.T
	ws   *websocket.Conn
	next int
	held []message
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func connect(t *testing.T, url string) *wire {
	t.Helper()
	ws, _, err := websocket.DefaultDialer.Dial(url, nil)
	harness.Must(t, err)
	t.Cleanup(func() { _ = ws.Close() })
	w := &wire{t: t, ws: ws}
	w.call("initialize", object{"clientName": "test"})
	harness.Must(t, ws.WriteMessage(websocket.TextMessage, []byte(`{"method":"initialized"}`)))
	return w
}

func (w *wire) send(method string, params any) string {
	w.t.Helper()
	w.next++
	text, err := json.Marshal(object{"id": w.next, "method": method, "params": params})
	harness.Must(w.t, err)
	harness.Must(w.t, w.ws.WriteMessage(websocket.TextMessage, text))
	return strconv.Itoa(w.next)
}

func (w *wire) wait(fits func(message) bool) message {
	w.t.Helper()
	for i, m := range w.held {
		if fits(m) {
			w.held = slices.Delete(w.held, i, i+1)
			return m
		}
	}
	for {
		_ = w.ws.SetReadDeadline(time.Now().Add(harness.Patience))
		_, text, err := w.ws.ReadMessage()
		harness.Must(w.t, err)
		var m message
		harness.Must(w.t, json.Unmarshal(text, &m))
		if fits(m) {
			return m
		}
		w.held = append(w.held, m)
	}
}

func (w *wire) answer(id string) message {
	w.t.Helper()
	return w.wait(func(m message) bool { return m.Method == "" && string(m.ID) == id })
}

// call makes a request that must succeed, and returns the result.
func (w *wire) call(method string, params any) map[string]any {
	w.t.Helper()
	m := w.answer(w.send(method, params))
	if m.Error != nil {
		w.t.Fatalf("%s: %d %s", method, m.Error.Code, m.Error.Message)
	}
	var r map[string]any
	harness.Must(w.t, json.Unmarshal(m.Result, &r))
	return r
}

// refuse makes a request that must fail.
func (w *wire) refuse(method string, params any, code int, text string) {
	w.t.Helper()
	m := w.answer(w.send(method, params))
	if m.Error == nil || m.Error.Code != code || !strings.Contains(m.Error.Message, text) {
		w.t.Errorf("%s: %.200s %+v, want %d %q", method, m.Result, m.Error, code, text)
	}
}

type ended struct {
	out    string
	code   int
	denied bool
}

// end reads the notifications of a process up to the last.
func (w *wire) end(id string) ended {
	w.t.Helper()
	var e ended
	for {
		m, p := w.event(id)
		switch m {
		case "process/output":
			e.out += string(p.Chunk)
		case "process/exited":
			e.code, e.denied = p.ExitCode, p.SandboxDenied
		case "process/closed":
			return e
		}
	}
}

type event struct {
	ProcessID     string
	Chunk         []byte
	ExitCode      int
	SandboxDenied bool
}

func (w *wire) event(id string) (string, event) {
	w.t.Helper()
	var e event
	m := w.wait(func(m message) bool {
		e = event{}
		return strings.HasPrefix(m.Method, "process/") && json.Unmarshal(m.Params, &e) == nil && e.ProcessID == id
	})
	return m.Method, e
}

// saying reads output until there is a text in it.
func (w *wire) saying(id, text string) {
	w.t.Helper()
	for out := ""; !strings.Contains(out, text); {
		m, e := w.event(id)
		if out += string(e.Chunk); m == "process/closed" {
			w.t.Fatalf("%s said %q and not %q", id, out, text)
		}
	}
}

// Short names of what the harness has for JSON objects of requests.
type object = harness.Object

var (
	uri     = harness.FileURI
	at      = harness.PathEntry
	special = harness.SpecialEntry
	managed = harness.ManagedSandbox
	with    = harness.With
)

// usual lets everything be read but one file, and the workspace be written.
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

// descendants are the processes below one.
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

// idleLaunchers is how many launchers a server keeps for the next requests. Further ones
// have made sandboxes ahead, at most aheadLaunchers.
const idleLaunchers, aheadLaunchers = 2, 4

// isIdleLauncher reports whether a process is a launcher that was started ahead of
// need, and has started nothing yet.
func isIdleLauncher(pid int) bool { return hasOption(pid, "--standby-fd") && len(children(pid)) == 0 }

// aheadOf returns the init of a launcher that has made a sandbox ahead, in which nothing runs
// yet; 0: the process is no such launcher.
func aheadOf(pid int) int {
	inits := children(pid)
	if !hasOption(pid, "--standby-fd") || len(inits) != 1 {
		return 0
	}
	init, err := strconv.Atoi(inits[0])
	if err != nil || len(children(init)) > 0 {
		return 0
	}
	return init
}

// isJanitor reports whether a process is the janitor of a server's sandboxes.
func isJanitor(pid int) bool { return hasOption(pid, "--janitor-socket-fd") }

func hasOption(pid int, option string) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.Contains(string(line), "\x00"+option+"\x00")
}

// quiet waits until the server has no more processes than at first, but for the
// launchers that it keeps, and the janitor.
func (c *confined) quiet() {
	c.t.Helper()
	c.until("processes are left", func() bool {
		idle := 0
		known := slices.Clone(c.before)
		all := descendants(c.pid)
		for _, pid := range all {
			if init := aheadOf(pid); init != 0 && len(known) < len(c.before)+2*aheadLaunchers {
				known = append(known, pid, init)
			}
		}
		return !slices.ContainsFunc(all, func(pid int) bool {
			if isIdleLauncher(pid) {
				idle++
				return idle > idleLaunchers
			}
			return !slices.Contains(known, pid) && !isJanitor(pid)
		})
	})
}

func (c *confined) until(what string, done func() bool) {
	c.t.Helper()
	testutil.Eventually(c.t.Context(), c.t, "an end of this: "+what, func() (string, bool) { return "it goes on", done() })
}

// names are what is in the workspace.
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
		// Ours: the level may be absent and the roots count.
		for _, s := range []object{
			with(roots, "cwd", uri(c.ws+"/sub"), "workspaceRoots", []string{uri(c.ws)}),
			with(roots, "cwd", uri(c.ws), "windowsSandboxLevel", "disabled"),
			with(roots, "workspaceRoots", []string{uri(c.ws)}),
			with(roots, "cwd", uri(c.ws)),
		} {
			if got := c.call("fs/readFile", read(s, f)); got["dataBase64"] != encode("text") {
				t.Errorf("%v: %v", s, got)
			}
		}
		c.refuse("fs/readFile", read(with(roots, "cwd", uri(c.ws), "workspaceRoots", []string{uri(c.ws + "/sub")}), f), -32004, "os error 2")
		// What cannot be enforced is told where the launcher is seen.
		harness.Must(c.t, os.Symlink(c.dir, c.ws+"/l"))
		crossing := managed(special("root", "read"), at(c.ws, "write"), at(c.ws+"/l/x", "deny"))
		const why = "cannot enforce sandbox deny-read path"
		c.refuse("fs/writeFile", object{"path": uri(f), "dataBase64": "", "sandbox": crossing}, -32603, "fs sandbox helper failed with status exit status: 125: codex-linux-sandbox: "+why)
		c.start("p", crossing, "echo ran")
		if e := c.end("p"); e.code != 125 || !e.denied || !strings.Contains(e.out, why) {
			t.Errorf("%+v", e)
		}
		harness.Must(c.t, os.Remove(c.ws+"/l"))
		c.untouched()
		c.is(f, "text")
	})
}

func TestConfinedFiles(t *testing.T) {
	onBoth(t, func(c *confined) {
		s := c.usual()
		ask := func(method string, path string, more ...any) map[string]any {
			t.Helper()
			return c.call(method, with(object{"path": uri(path), "sandbox": s}, more...))
		}
		no := func(method, path string, code int, text string, more ...any) {
			t.Helper()
			c.refuse(method, with(object{"path": uri(path), "sandbox": s}, more...), code, text)
		}
		const eacces, erofs = "Permission denied (os error 13)", "Read-only file system (os error 30)"
		walk := []any{"options", object{"maxDepth": 3, "maxDirectories": 100, "maxEntries": 100, "followDirectorySymlinks": false}}
		ask("fs/writeFile", c.ws+"/new", "dataBase64", encode("new"))
		c.is(c.ws+"/new", "new")
		if got := ask("fs/readFile", c.ws+"/new")["dataBase64"]; got != encode("new") {
			t.Errorf("%v", got)
		}
		if got := ask("fs/getMetadata", c.ws+"/new"); got["isFile"] != true || got["size"] != 3.0 {
			t.Errorf("%v", got)
		}
		ask("fs/createDirectory", c.ws+"/a/b", "recursive", true)
		if got := ask("fs/canonicalize", c.ws+"/a/../a/b")["path"]; got != uri(c.ws+"/a/b") {
			t.Errorf("%v", got)
		}
		c.call("fs/copy", object{"sourcePath": uri(c.ws + "/new"), "destinationPath": uri(c.ws + "/a/b/copy"), "recursive": false, "sandbox": s})
		c.is(c.ws+"/a/b/copy", "new")
		c.call("fs/copy", object{"sourcePath": uri(c.ws + "/a"), "destinationPath": uri(c.ws + "/a2"), "recursive": true, "sandbox": s})
		c.is(c.ws+"/a2/b/copy", "new")
		if got := ask("fs/readDirectory", c.ws+"/a/b")["entries"].([]any); len(got) != 1 {
			t.Errorf("%v", got)
		}
		if got := fmt.Sprint(ask("fs/walk", c.ws+"/a", walk...)); !strings.Contains(got, c.ws+"/a/b/copy") {
			t.Errorf("%v", got)
		}
		// With attributes, what is masked has those of the mask, in a list as in a walk.
		listed := fmt.Sprint(ask("fs/readDirectory", c.ws, "attributes", true))
		walk[1].(object)["attributes"] = true
		walked := fmt.Sprint(ask("fs/walk", c.ws, walk...))
		delete(walk[1].(object), "attributes")
		for _, got := range []string{listed, walked} {
			if !strings.Contains(got, "kind:file modifiedAtMs:") || !strings.Contains(got, "size:3") {
				t.Errorf("no attributes of new: %s", got)
			}
		}
		if secret := regexp.MustCompile(`attributes:map\[[^]]*\] fileName:secret `).FindString(listed); !strings.Contains(secret, "permissions:0 size:0]") {
			t.Errorf("the list tells of the secret: %q of %s", secret, listed)
		}
		for _, name := range []string{"/new", "/a", "/a2"} {
			ask("fs/remove", c.ws+name, "recursive", true, "force", false)
		}
		c.untouched()

		no("fs/readFile", c.ws+"/secret", -32600, eacces)
		no("fs/writeFile", c.ws+"/secret", -32603, erofs, "dataBase64", "")
		no("fs/remove", c.ws+"/secret", -32603, "os error 16", "recursive", false, "force", true)
		no("fs/writeFile", c.dir+"/outside", -32603, erofs, "dataBase64", "")
		no("fs/createDirectory", c.dir+"/made", -32603, erofs, "recursive", true)
		no("fs/remove", c.dir+"/outside", -32603, erofs, "recursive", false, "force", true)
		no("fs/createDirectory", c.ws+"/.git", -32603, "os error", "recursive", false)
		no("fs/writeFile", c.ws+"/.codex/config", -32603, erofs, "dataBase64", "")
		c.refuse("fs/copy", object{"sourcePath": uri(c.ws + "/secret"), "destinationPath": uri(c.ws + "/copied"), "recursive": false, "sandbox": s}, -32600, eacces)
		c.refuse("fs/copy", object{"sourcePath": uri(c.ws + "/f"), "destinationPath": uri(c.dir + "/copied"), "recursive": false, "sandbox": s}, -32603, erofs)
		// What is masked or not there is not seen either.
		if got := ask("fs/getMetadata", c.ws+"/secret"); got["size"] != 0.0 {
			t.Errorf("%v", got)
		}
		hidden := with(managed(special("minimal", "read"), at(c.ws+"/sub", "read")), "cwd", uri(c.ws))
		s = hidden
		no("fs/readDirectory", c.dir+"/none", -32004, "os error 2")
		no("fs/getMetadata", c.ws+"/f", -32004, "os error 2")
		// A command could have put a link where it may write: nothing follows it.
		if err := os.Symlink(c.dir, c.ws+"/linked"); err != nil {
			t.Fatal(err)
		}
		s = with(managed(special("minimal", "read"), at(c.ws, "write"), at(c.ws+"/linked", "write")), "cwd", uri(c.ws))
		for _, method := range []string{"fs/readFile", "fs/getMetadata", "fs/canonicalize"} {
			no(method, c.dir+"/outside", -32603, "crosses writable symlink")
		}
		if err := os.Remove(c.ws + "/linked"); err != nil {
			t.Fatal(err)
		}
		s = hidden
		no("fs/canonicalize", c.ws+"/f", -32004, "os error 2")
		if got := fmt.Sprint(ask("fs/walk", c.dir, walk...)); strings.Contains(got, "outside") || !strings.Contains(got, "sub") {
			t.Errorf("%v", got)
		}
		if got := ask("fs/readDirectory", c.ws)["entries"].([]any); len(got) != 1 {
			t.Errorf("%v", got)
		}
		c.untouched()
		c.quiet()
	})
}

// TestConfinedRename renames within what may be written, and nowhere else.
func TestConfinedRename(t *testing.T) {
	onBoth(t, func(c *confined) {
		s := c.usual()
		params := func(from, to string) object {
			return object{"sourcePath": uri(from), "destinationPath": uri(to), "overwrite": true, "sandbox": s}
		}
		no := func(from, to string, code int, text string) {
			t.Helper()
			c.refuse("fs/rename", params(from, to), code, text)
		}
		for _, sandbox := range []any{s, nil} {
			c.call("fs/writeFile", object{"path": uri(c.ws + "/old"), "dataBase64": encode("old"), "sandbox": s})
			c.call("fs/rename", with(params(c.ws+"/old", c.ws+"/sub/new"), "sandbox", sandbox))
			c.is(c.ws+"/sub/new", "old")
			c.refuse("fs/rename", object{"sourcePath": uri(c.ws + "/sub/new"), "destinationPath": uri(c.ws + "/f"), "sandbox": sandbox},
				-32603, "File exists (os error 17): "+c.ws+"/f")
			c.call("fs/remove", object{"path": uri(c.ws + "/sub/new")})
		}
		c.untouched()

		const erofs, protected = "Read-only file system (os error 30): ", "is protected by the sandbox"
		no(c.dir+"/outside", c.ws+"/taken", -32603, erofs+c.dir+"/outside")
		no(c.ws+"/f", c.dir+"/given", -32603, erofs+c.dir+"/given")
		no(c.ws+"/f", c.dir+"/outside", -32603, erofs+c.dir+"/outside")
		no(c.dir+"/outside", c.dir+"/moved", -32603, erofs+c.dir+"/outside")
		no(c.ws+"/secret", c.ws+"/told", -32600, protected)
		no(c.ws+"/f", c.ws+"/secret", -32600, protected)
		no(c.ws+"/f", c.ws+"/.codex/hook", -32600, "Permission denied (os error 13): "+c.ws+"/.codex/hook")
		no(c.ws+"/sub", c.ws+"/.git", -32600, "")
		no(c.ws, c.dir+"/gone", -32603, erofs+c.ws)
		// Between two writable roots, which are two mounts.
		harness.Must(t, os.Mkdir(c.dir+"/second", 0o755))
		s = with(managed(special("root", "read"), special("project_roots", "write"), at(c.dir+"/second", "write")), "cwd", uri(c.ws))
		no(c.ws+"/f", c.dir+"/second/f", -32600, "copy with fs/copy, then remove the source with fs/remove")
		// A link that leads out is renamed itself.
		harness.Must(t, os.Symlink(c.dir+"/outside", c.ws+"/link"))
		s = c.usual()
		c.call("fs/rename", params(c.ws+"/link", c.ws+"/sub/link"))
		c.call("fs/rename", params(c.ws+"/f", c.ws+"/sub/link"))
		c.call("fs/rename", params(c.ws+"/sub/link", c.ws+"/f"))
		harness.Must(t, os.Remove(c.dir+"/second"))
		c.untouched()
		c.quiet()
	})
}

// TestConfinedAttributes changes attributes and makes links within what may be
// written, and nowhere else.
func TestConfinedAttributes(t *testing.T) {
	onBoth(t, func(c *confined) {
		s := c.usual()
		set := func(path string) object {
			return object{"path": uri(path), "permissions": 0o600, "modifiedAtMs": 1000, "sandbox": s}
		}
		link := func(path string) object { return object{"path": uri(path), "target": c.dir + "/outside", "sandbox": s} }
		c.call("fs/writeFile", object{"path": uri(c.ws + "/own"), "dataBase64": encode("own"), "atomic": true, "permissions": 0o640, "sandbox": s})
		if st, err := os.Stat(c.ws + "/own"); err != nil || st.Mode() != 0o640 {
			t.Errorf("%v, %v", st, err)
		}
		c.call("fs/setAttributes", set(c.ws+"/own"))
		if st, err := os.Stat(c.ws + "/own"); err != nil || st.Mode() != 0o600 || !st.ModTime().Equal(time.Unix(1, 0)) {
			t.Errorf("%v, %v", st, err)
		}
		c.call("fs/symlink", link(c.ws+"/link"))
		got := c.call("fs/getAttributes", object{"path": uri(c.ws + "/link"), "sandbox": s})
		if got["kind"] != "symlink" || got["target"] != c.dir+"/outside" {
			t.Errorf("%v", got)
		}
		before, err := os.Stat(c.dir + "/outside")
		harness.Must(t, err)
		const erofs = "Read-only file system (os error 30): "
		c.refuse("fs/setAttributes", set(c.dir+"/outside"), -32603, erofs+c.dir+"/outside")
		c.refuse("fs/setAttributes", set(c.ws+"/link"), -32600, "is a symbolic link")
		c.refuse("fs/symlink", link(c.dir+"/given"), -32603, erofs+c.dir+"/given")
		c.refuse("fs/symlink", link(c.ws+"/.codex/hook"), -32603, erofs)
		for _, path := range []string{c.ws + "/secret", c.ws + "/.codex"} {
			c.refuse("fs/setAttributes", set(path), -32603, erofs)
		}
		if after, err := os.Stat(c.dir + "/outside"); err != nil || after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime()) {
			t.Errorf("outside became %v, %v", after, err)
		}
		harness.Must(t, os.Remove(c.ws+"/own"))
		harness.Must(t, os.Remove(c.ws+"/link"))
		c.untouched()
		c.quiet()
	})
}

func TestConfinedHandles(t *testing.T) {
	onBoth(t, func(c *confined) {
		s := c.usual()
		open := func(id, path, mode string, more ...any) object {
			return with(object{"handleId": id, "path": uri(path), "mode": mode, "sandbox": s}, more...)
		}
		c.call("fs/open", open("r", c.ws+"/f", "read"))
		if got := c.call("fs/readBlock", object{"handleId": "r", "offset": 1, "len": 2}); got["chunk"] != encode("ex") || got["eof"] != false {
			t.Errorf("%v", got)
		}
		if got := c.call("fs/readBlock", object{"handleId": "r", "offset": 2, "len": 100}); got["chunk"] != encode("xt") || got["eof"] != true {
			t.Errorf("%v", got)
		}
		c.refuse("fs/writeBlock", object{"handleId": "r", "offset": 0, "chunk": encode("x")}, -32600, "open for reading")
		c.call("fs/close", object{"handleId": "r"})
		c.refuse("fs/readBlock", object{"handleId": "r", "offset": 0, "len": 1}, -32004, "unknown file read handle")

		for _, atomic := range []bool{false, true} {
			name := c.ws + "/w" + strconv.FormatBool(atomic)
			c.call("fs/open", open("w", name, "replace", "atomic", atomic))
			c.call("fs/writeBlock", object{"handleId": "w", "offset": 0, "chunk": encode("some ")})
			c.call("fs/writeBlock", object{"handleId": "w", "offset": 5, "chunk": encode("text")})
			if _, err := os.Lstat(name); atomic != (err != nil) {
				t.Errorf("atomic %v: %v", atomic, err)
			}
			c.call("fs/close", object{"handleId": "w"})
			c.is(name, "some text")
			harness.Must(t, os.Remove(name))
		}
		c.untouched()

		c.refuse("fs/open", open("x", c.ws+"/secret", "read"), -32600, "os error 13")
		c.refuse("fs/open", open("x", c.dir+"/outside", "replace"), -32603, "os error 30")
		c.refuse("fs/open", open("x", c.dir+"/outside", "replace", "atomic", true), -32603, "os error 30")
		c.refuse("fs/open", open("x", c.ws+"/.git/x", "replace"), -32603, "os error 30")
		c.refuse("fs/open", open("x", c.ws+"/missing", "read"), -32004, "os error 2")
		c.quiet()

		// What is abandoned is as if it had not been.
		other := connect(t, c.url)
		for i := range 4 {
			id := strconv.Itoa(i)
			other.call("fs/open", open(id, c.ws+"/f", "replace", "atomic", true))
			other.call("fs/writeBlock", object{"handleId": id, "offset": 0, "chunk": encode("never")})
		}
		other.call("fs/open", open("r", c.ws+"/f", "read"))
		harness.Must(t, other.ws.Close())
		c.until("temporary files are left", func() bool { return c.names() == "f secret sub" })
		c.quiet()
		c.untouched()
		c.is(c.ws+"/f", "text")
	})
}

func TestConfinedProcesses(t *testing.T) {
	onBoth(t, func(c *confined) {
		s := c.usual()
		run := func(script string, more ...any) ended {
			t.Helper()
			c.next++
			id := "p" + strconv.Itoa(c.next)
			if r := c.start(id, s, script, more...); r["sandboxType"] != "linuxSeccomp" {
				t.Errorf("%v", r)
			}
			return c.end(id)
		}
		for script, want := range map[string]ended{
			"echo out":                       {"out\n", 0, false},
			"echo err >&2":                   {"err\n", 0, false},
			"pwd":                            {c.ws + "\n", 0, false},
			"exit 3":                         {"", 3, false},
			"kill -TERM $$":                  {"", 143, false},
			"exit 159":                       {"", 159, true},
			"cat secret 2>/dev/null; exit 1": {"", 1, false},
			"echo x > sub/made && cat sub/made && rm -r sub/made": {"x\n", 0, false},
			"cat secret 2>&1":                  {"cat: secret: Permission denied\n", 1, true},
			"exec no-such-program 2>/dev/null": {"", 127, false},
		} {
			if got := run(script); got != want {
				t.Errorf("%s: %+v, want %+v", script, got, want)
			}
		}
		if e := run("echo x > ../outside"); e.code == 0 || !e.denied || !strings.Contains(e.out, "Read-only file system") {
			t.Errorf("%+v", e)
		}
		// The answer to process/read says so as well.
		c.start("read", s, "echo x > ../outside")
		r := c.call("process/read", object{"processId": "read", "waitMs": 20000})
		for r["closed"] != true {
			r = c.call("process/read", object{"processId": "read", "afterSeq": r["nextSeq"].(float64) - 1, "waitMs": 20000})
		}
		if r["sandboxDenied"] != true || r["exitCode"] == 0.0 {
			t.Errorf("%v", r)
		}
		c.end("read")
		if e := run("echo out; test -t 0 && test -t 1 && stty size && ps -o tty= -p $$ | grep -q pts && echo mine", "tty", true, "size", object{"rows": 31, "cols": 97}); e.out != "out\r\n31 97\r\nmine\r\n" && !strings.HasPrefix(e.out, "out\r\n31 97\r\n") {
			t.Errorf("%+v", e)
		}
		if e := run(`echo "$0"`, "argv", []string{"/bin/sh", "-c", `tr "\0" " " < /proc/$$/cmdline`}, "arg0", "renamed"); e.out != `renamed -c tr "\0" " " < /proc/$$/cmdline ` {
			t.Errorf("%+v", e)
		}
		// The environment is the same as without a sandbox, in its order too.
		env := []any{"argv", []string{"/usr/bin/env", "-0"}, "env", object{"A": "b c", "EMPTY": "", "LINES_OF": "x\ny", "PATH": "/usr/bin", "CODEX_SANDBOX_ARG0": "mine", "LD_X": "="}}
		c.start("plain", nil, "", env...)
		want := c.end("plain")
		if got := run("", env...); got != want || !strings.Contains(want.out, "LINES_OF=x\ny\x00") {
			t.Errorf("%q, want %q", got.out, want.out)
		}
		c.untouched()
		c.quiet()
	})
}

func TestConfinedProcessesAndSignals(t *testing.T) {
	onBoth(t, func(c *confined) {
		s := c.usual()
		for _, tty := range []bool{false, true} {
			for name, text := range map[string]string{"interrupt": "INT", "terminate": "TERM", "hangup": "HUP", "quit": "QUIT"} {
				id := name + strconv.FormatBool(tty)
				c.start(id, s, "trap 'echo got "+text+"; exit 7' "+text+"; echo ready; while :; do sleep 0.02; done", "tty", tty)
				c.saying(id, "ready")
				c.call("process/signal", object{"processId": id, "signal": name})
				if e := c.end(id); e.code != 7 || !strings.Contains(e.out, "got "+text) {
					t.Errorf("%s: %+v", id, e)
				}
			}
			id := "terminated" + strconv.FormatBool(tty)
			length := "1000." + strconv.Itoa(os.Getpid())
			c.start(id, s, "trap '' INT TERM HUP; (setsid sleep "+length+" &); echo ready; sleep "+length+"; sleep "+length, "tty", tty)
			c.saying(id, "ready")
			if r := c.call("process/terminate", object{"processId": id}); r["running"] != true {
				t.Errorf("%v", r)
			}
			if e := c.end(id); e.code != 137 {
				t.Errorf("%s: %+v", id, e)
			}
			c.until("a sleep is left", func() bool {
				names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
				return !slices.ContainsFunc(names, func(name string) bool {
					text, _ := os.ReadFile(name)
					return string(text) == "sleep\x00"+length+"\x00"
				})
			})
		}
		c.quiet()
		c.until("stubs are left", func() bool { return c.names() == "f secret sub" })
	})
}

func TestKindsOfProfiles(t *testing.T) {
	onBoth(t, func(c *confined) {
		entries := func(list ...object) object { return managed(list...)["permissions"].(object) }
		full := object{"type": "managed", "file_system": object{"type": "unrestricted"}, "network": "restricted"}
		for i, tt := range []struct {
			name       string
			permission any
			kind       string
			offline    bool
		}{
			{"disabled", object{"type": "disabled"}, "none", false},
			{"external", object{"type": "external", "network": "restricted"}, "linuxSeccomp", true},
			{"external with the network", object{"type": "external", "network": "enabled"}, "linuxSeccomp", false},
			{"unrestricted", full, "linuxSeccomp", true},
			{"unrestricted with the network", with(full, "network", "enabled"), "linuxSeccomp", false},
			{"restricted with the network", with(entries(special("root", "read"), at(c.dir, "write")), "network", "enabled"), "linuxSeccomp", false},
		} {
			id := "p" + strconv.Itoa(i)
			s := object{"permissions": tt.permission}
			c.call("fs/writeFile", object{"path": uri(c.dir + "/made"), "dataBase64": encode("made"), "sandbox": s})
			r := c.start(id, s, "cat ../made; rm ../made; grep Seccomp: /proc/self/status; readlink /proc/self/ns/net")
			e := c.end(id)
			net, err := os.Readlink("/proc/self/ns/net")
			harness.Must(t, err)
			if r["sandboxType"] != tt.kind || e.code != 0 || !strings.HasPrefix(e.out, "made") {
				t.Errorf("%s: %v %+v", tt.name, r, e)
			}
			if filtered := strings.Contains(e.out, "Seccomp:\t2"); tt.offline && !filtered || !tt.offline && !strings.Contains(e.out, net) {
				t.Errorf("%s: %+v", tt.name, e)
			}
		}
		// The oldest shape.
		old := object{"sandboxPolicy": object{"type": "workspace-write"}, "windowsSandboxLevel": "disabled", "useLegacyLandlock": false, "additionalPermissions": nil}
		c.start("old", old, "echo x > made && rm made && ! echo x 2>/dev/null > /codex-e2e && echo held")
		if e := c.end("old"); e.out != "held\n" {
			t.Errorf("%+v", e)
		}
		old["sandboxPolicy"] = object{"type": "read-only"}
		c.refuse("fs/writeFile", object{"path": uri(c.ws + "/f"), "dataBase64": "", "sandbox": old}, -32603, "os error 30")
		old["additionalPermissions"] = object{"network": nil, "file_system": object{"write": []string{uri(c.ws)}}}
		c.call("fs/writeFile", object{"path": uri(c.ws + "/f"), "dataBase64": encode("more"), "sandbox": old})
		c.is(c.ws+"/f", "more")
		old["sandboxPolicy"] = object{"type": "danger-full-access"}
		if r := c.start("free", old, "true"); r["sandboxType"] != "none" {
			t.Errorf("%v", r)
		}
		c.end("free")
	})
}

func TestManagedProxy(t *testing.T) {
	self, err := os.Executable()
	harness.Must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	harness.Must(t, err)
	proxy := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "proxied %s\n", r.URL)
	})}
	go func() { _ = proxy.Serve(l) }()
	t.Cleanup(func() { _ = proxy.Close() })
	onBoth(t, func(c *confined) {
		address := l.Addr().String()
		env := object{"PATH": "/usr/bin:/bin", "HTTP_PROXY": "http://user:x@" + address + "/", fetchEnv: address}
		more := []any{"argv", []string{self}, "enforceManagedNetwork", true, "env", env}
		for i, s := range []object{c.usual(), {"permissions": object{"type": "disabled"}}, with(c.usual(), "useLegacyLandlock", true)} {
			id := "p" + strconv.Itoa(i)
			c.start(id, s, "", more...)
			if e := c.end(id); e.out != "proxied http://far.example/page\n" || e.code != 0 {
				t.Errorf("%v: %+v", s, e)
			}
		}
		delete(env, "HTTP_PROXY")
		c.start("none", c.usual(), "", more...)
		if e := c.end("none"); e.code != 101 || !strings.Contains(e.out, "managed proxy mode requires proxy environment variables") {
			t.Errorf("%+v", e)
		}
		c.quiet()
	})
}

func TestConfinedAtTheEdges(t *testing.T) {
	onBoth(t, func(c *confined) {
		check := func(id string, s object, want string) {
			t.Helper()
			c.start(id, s, "cat f && ! cat secret 2>/dev/null && echo held")
			if e := c.end(id); e.out != want {
				t.Errorf("%s: %+v", id, e)
			}
			if got := c.call("fs/readFile", object{"path": uri(c.ws + "/f"), "sandbox": s})["dataBase64"]; got != encode("text") {
				t.Errorf("%s: %v", id, got)
			}
			c.call("fs/writeFile", object{"path": uri(c.ws + "/f"), "dataBase64": encode("text"), "sandbox": s})
		}
		// A profile of 300 KiB.
		entries := []object{special("root", "read"), at(c.ws, "write"), at(c.ws+"/secret", "deny")}
		for i := range 900 {
			entries = append(entries, at("/missing/"+strings.Repeat("x", 300)+strconv.Itoa(i), "read"))
		}
		long := managed(entries...)
		text, err := json.Marshal(long)
		harness.Must(t, err)
		if len(text) < 300<<10 {
			t.Fatalf("%d bytes", len(text))
		}
		check("long", long, "textheld\n")
		// The folder of the binaries is hidden, and so is the whole file system.
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", c.pid))
		harness.Must(t, err)
		check("hidden", managed(special("root", "read"), at(c.ws, "write"), at(c.ws+"/secret", "deny"), at(filepath.Dir(exe), "deny")), "textheld\n")
		check("restricted", managed(special("minimal", "read"), at(c.ws, "write"), at(c.ws+"/secret", "deny")), "textheld\n")

		// The legacy mode is for policies of its time, and protects no metadata.
		harness.Must(t, os.MkdirAll(c.ws+"/.git", 0o755))
		harness.Must(t, os.MkdirAll(c.ws+"/.agents", 0o755))
		harness.Must(t, os.MkdirAll(c.ws+"/.codex", 0o755))
		legacy := with(managed(special("root", "read"), special("project_roots", "write")), "cwd", uri(c.ws), "useLegacyLandlock", true)
		c.start("legacy", legacy, "echo x > made && rm made && ! echo x 2>/dev/null > ../outside && echo held")
		if e := c.end("legacy"); !strings.Contains(e.out, "held\n") && !strings.Contains(e.out, "Landlock") {
			t.Errorf("%+v", e)
		}
		c.start("legacy2", with(c.usual(), "useLegacyLandlock", true), "echo ran")
		if e := c.end("legacy2"); e.code != 125 || !strings.Contains(e.out, "permission profiles requiring direct runtime enforcement are incompatible with --use-legacy-landlock") {
			t.Errorf("%+v", e)
		}
		for _, name := range []string{".git", ".agents", ".codex"} {
			harness.Must(t, os.Remove(filepath.Join(c.ws, name)))
		}
		c.untouched()
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
				t.Errorf("%+v", m.Error)
			}
		}
		for i := range many {
			name := strconv.Itoa(i)
			if e := c.end(name); e.out != name+"\n" || e.code != 0 {
				t.Errorf("%s: %+v", name, e)
			}
			c.is(c.ws+"/"+name, name)
			harness.Must(t, os.Remove(c.ws+"/"+name))
		}
		c.quiet()
		c.until("stubs are left: "+c.names(), func() bool { return c.names() == "f secret sub" })
		c.untouched()
	})
}

// A server that is killed takes what it has confined with it, and a later
// sandbox clears away what it has left.
func TestConfinedProcessesEndWithTheServer(t *testing.T) {
	onBoth(t, func(c *confined) {
		c.start("p", c.usual(), "echo ready; sleep 1000")
		c.saying("p", "ready")
		pids := descendants(c.pid)
		harness.Must(t, syscall.Kill(c.pid, syscall.SIGKILL))
		harness.AwaitGone(t, pids...)
		c.until("stubs are left", func() bool { return c.names() == "f secret sub" })
	})
}
