package sandbox

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// fetchEnv makes this program act as a client that fetches a URL through the proxies of its
// environment, and then tries to reach an address directly.
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

func TestConfinedProcesses(t *testing.T) {
	t.Parallel()
	onBoth(t, func(c *confined) {
		s := c.usual()
		run := func(script string, more ...any) ended {
			t.Helper()
			c.next++
			id := "p" + strconv.Itoa(c.next)
			if r := c.start(id, s, script, more...); r["sandboxType"] != "linuxSeccomp" {
				t.Errorf(`got %v, want r["sandboxType"] "linuxSeccomp"`, r)
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
			t.Errorf(`got %+v; want e.code other than 0, e.denied true, e.out with "Read-only file system"`, e)
		}
		// The response of process/read contains the denial as well.
		c.start("read", s, "echo x > ../outside")
		r := c.call("process/read", object{"processId": "read", "waitMs": 20000})
		for r["closed"] != true {
			r = c.call("process/read", object{"processId": "read", "afterSeq": r["nextSeq"].(float64) - 1, "waitMs": 20000})
		}
		if r["sandboxDenied"] != true || r["exitCode"] == 0.0 {
			t.Errorf(`got %v; want r["sandboxDenied"] true, r["exitCode"] other than 0.0`, r)
		}
		c.end("read")
		if e := run("echo out; test -t 0 && test -t 1 && stty size && ps -o tty= -p $$ | grep -q pts && echo mine", "tty", true, "size", object{"rows": 31, "cols": 97}); e.out != "out\r\n31 97\r\nmine\r\n" && !strings.HasPrefix(e.out, "out\r\n31 97\r\n") {
			t.Errorf("got %+v, want e.out beginning with %q", e, "out\r\n31 97\r\n")
		}
		if e := run("t=$(tty) && test -r $t && echo $t >$t", "tty", true); e.out != "/dev/console\r\n" {
			t.Errorf("the terminal's name: got %+v, want /dev/console", e)
		}
		if e := run("exec setsid sh -c 'echo tested; exit 7'"); e.out != "tested\n" || e.code != 7 {
			t.Errorf("setsid: got %+v, want tested and code 7", e)
		}
		if e := run(`echo "$0"`, "argv", []string{"/bin/sh", "-c", `tr "\0" " " < /proc/$$/cmdline`}, "arg0", "renamed"); e.out != `renamed -c tr "\0" " " < /proc/$$/cmdline ` {
			t.Errorf("got %+v, want e.out %q", e, `renamed -c tr "\0" " " < /proc/$$/cmdline `)
		}
		// The environment is the same as without a sandbox, including its order.
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
	t.Parallel()
	onBoth(t, func(c *confined) {
		s := c.usual()
		for _, tty := range []bool{false, true} {
			for name, text := range map[string]string{"interrupt": "INT", "terminate": "TERM", "hangup": "HUP", "quit": "QUIT"} {
				id := name + strconv.FormatBool(tty)
				c.start(id, s, "trap 'echo got "+text+"; exit 7' "+text+"; echo ready; while :; do sleep 0.02; done", "tty", tty)
				c.saying(id, "ready")
				c.call("process/signal", object{"processId": id, "signal": name})
				if e := c.end(id); e.code != 7 || !strings.Contains(e.out, "got "+text) {
					t.Errorf("%s: got %+v; want e.code 7, e.out with %q", id, e, "got "+text)
				}
			}
			id := "terminated" + strconv.FormatBool(tty)
			length := "1000." + strconv.Itoa(os.Getpid())
			c.start(id, s, "trap '' INT TERM HUP; (setsid sleep "+length+" &); echo ready; sleep "+length+"; sleep "+length, "tty", tty)
			c.saying(id, "ready")
			if r := c.call("process/terminate", object{"processId": id}); r["running"] != true {
				t.Errorf(`got %v, want r["running"] true`, r)
			}
			if e := c.end(id); e.code != 137 {
				t.Errorf("%s: got %+v, want e.code 137", id, e)
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
		c.until("placeholders are left", func() bool { return c.names() == "f secret sub" })
	})
}

func TestKindsOfProfiles(t *testing.T) {
	t.Parallel()
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
				t.Errorf(`%s: got r %v, e %+v; want r["sandboxType"] %v, e.code 0, e.out beginning with "made"`, tt.name, r, e, tt.kind)
			}
			if filtered := strings.Contains(e.out, "Seccomp:\t2"); tt.offline && !filtered || !tt.offline && !strings.Contains(e.out, net) {
				t.Errorf("%s: got %+v; want filtered true, e.out with %q", tt.name, e, net)
			}
		}
		// This is the oldest form of a sandbox object.
		old := object{"sandboxPolicy": object{"type": "workspace-write"}, "windowsSandboxLevel": "disabled", "useLegacyLandlock": false, "additionalPermissions": nil}
		c.start("old", old, "echo x > made && rm made && ! echo x 2>/dev/null > /codex-e2e && echo held")
		if e := c.end("old"); e.out != "held\n" {
			t.Errorf("got %+v, want e.out %q", e, "held\n")
		}
		old["sandboxPolicy"] = object{"type": "read-only"}
		c.refuse("fs/writeFile", object{"path": uri(c.ws + "/f"), "dataBase64": "", "sandbox": old}, -32603, "os error 30")
		old["additionalPermissions"] = object{"network": nil, "file_system": object{"write": []string{uri(c.ws)}}}
		c.call("fs/writeFile", object{"path": uri(c.ws + "/f"), "dataBase64": encode("more"), "sandbox": old})
		c.is(c.ws+"/f", "more")
		old["sandboxPolicy"] = object{"type": "danger-full-access"}
		if r := c.start("free", old, "true"); r["sandboxType"] != "none" {
			t.Errorf(`got %v, want r["sandboxType"] "none"`, r)
		}
		c.end("free")
	})
}

func TestManagedProxy(t *testing.T) {
	t.Parallel()
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
				t.Errorf("%v: got %+v; want e.out %q, e.code 0", s, e, "proxied http://far.example/page\n")
			}
		}
		delete(env, "HTTP_PROXY")
		c.start("none", c.usual(), "", more...)
		if e := c.end("none"); e.code != 101 || !strings.Contains(e.out, "managed proxy mode requires proxy environment variables") {
			t.Errorf(`got %+v; want e.code 101, e.out with "managed proxy mode requires proxy environment variables"`, e)
		}
		c.quiet()
	})
}

func TestConfinedAtTheEdges(t *testing.T) {
	t.Parallel()
	onBoth(t, func(c *confined) {
		check := func(id string, s object, want string) {
			t.Helper()
			c.start(id, s, "cat f && ! cat secret 2>/dev/null && echo held")
			if e := c.end(id); e.out != want {
				t.Errorf("%s: got %+v, want e.out %v", id, e, want)
			}
			if got := c.call("fs/readFile", object{"path": uri(c.ws + "/f"), "sandbox": s})["dataBase64"]; got != encode("text") {
				t.Errorf(`%s: got %v, want encode("text")`, id, got)
			}
			c.call("fs/writeFile", object{"path": uri(c.ws + "/f"), "dataBase64": encode("text"), "sandbox": s})
		}
		// This profile has 300 KiB.
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
		// The profile hides the directory of the binaries, and then the whole file system.
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", c.pid))
		harness.Must(t, err)
		check("hidden", managed(special("root", "read"), at(c.ws, "write"), at(c.ws+"/secret", "deny"), at(filepath.Dir(exe), "deny")), "textheld\n")
		check("restricted", managed(special("minimal", "read"), at(c.ws, "write"), at(c.ws+"/secret", "deny")), "textheld\n")

		// The legacy mode is for policies of earlier versions, and protects no metadata.
		harness.Must(t, os.MkdirAll(c.ws+"/.git", 0o755))
		harness.Must(t, os.MkdirAll(c.ws+"/.agents", 0o755))
		harness.Must(t, os.MkdirAll(c.ws+"/.codex", 0o755))
		legacy := with(managed(special("root", "read"), special("project_roots", "write")), "cwd", uri(c.ws), "useLegacyLandlock", true)
		c.start("legacy", legacy, "echo x > made && rm made && ! echo x 2>/dev/null > ../outside && echo held")
		if e := c.end("legacy"); !strings.Contains(e.out, "held\n") && !strings.Contains(e.out, "Landlock") {
			t.Errorf(`got %+v, want e.out with %q or with "Landlock"`, e, "held\n")
		}
		c.start("legacy2", with(c.usual(), "useLegacyLandlock", true), "echo ran")
		if e := c.end("legacy2"); e.code != 125 || !strings.Contains(e.out, "permission profiles requiring direct runtime enforcement are incompatible with --use-legacy-landlock") {
			t.Errorf("got %+v; want e.code 125, e.out with %q", e, "permission profiles requiring direct runtime enforcement are incompatible with --use-legacy-landlock")
		}
		for _, name := range []string{".git", ".agents", ".codex"} {
			harness.Must(t, os.Remove(filepath.Join(c.ws, name)))
		}
		c.untouched()
	})
}

// When a server is killed, its sandboxed processes end, and a later sandbox
// removes leftover placeholders.
func TestConfinedProcessesEndWithTheServer(t *testing.T) {
	t.Parallel()
	onBoth(t, func(c *confined) {
		c.start("p", c.usual(), "echo ready; sleep 1000")
		c.saying("p", "ready")
		pids := descendants(c.pid)
		harness.Must(t, syscall.Kill(c.pid, syscall.SIGKILL))
		harness.AwaitGone(t, pids...)
		c.until("placeholders are left", func() bool { return c.names() == "f secret sub" })
	})
}
