package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil/machine"
	"golang.org/x/sys/unix"
)

func TestConfinedFiles(t *testing.T) {
	t.Parallel()
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
			t.Errorf(`got %v, want encode("new")`, got)
		}
		if got := ask("fs/getMetadata", c.ws+"/new"); got["isFile"] != true || got["size"] != 3.0 {
			t.Errorf(`got %v; want got["isFile"] true, got["size"] 3.0`, got)
		}
		ask("fs/createDirectory", c.ws+"/a/b", "recursive", true)
		if got := ask("fs/canonicalize", c.ws+"/a/../a/b")["path"]; got != uri(c.ws+"/a/b") {
			t.Errorf(`got %v, want uri(c.ws+"/a/b")`, got)
		}
		c.call("fs/copy", object{"sourcePath": uri(c.ws + "/new"), "destinationPath": uri(c.ws + "/a/b/copy"), "recursive": false, "sandbox": s})
		c.is(c.ws+"/a/b/copy", "new")
		c.call("fs/copy", object{"sourcePath": uri(c.ws + "/a"), "destinationPath": uri(c.ws + "/a2"), "recursive": true, "sandbox": s})
		c.is(c.ws+"/a2/b/copy", "new")
		if got := ask("fs/readDirectory", c.ws+"/a/b")["entries"].([]any); len(got) != 1 {
			t.Errorf("got %v, want len(got) 1", got)
		}
		if got := fmt.Sprint(ask("fs/walk", c.ws+"/a", walk...)); !strings.Contains(got, c.ws+"/a/b/copy") {
			t.Errorf("got %v, want a text with %q", got, c.ws+"/a/b/copy")
		}
		// With attributes, a masked path has the attributes of the mask, both in a list and in a walk.
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
		// The metadata of a masked path also reveal nothing about it.
		if got := ask("fs/getMetadata", c.ws+"/secret"); got["size"] != 0.0 {
			t.Errorf(`got %v, want got["size"] 0.0`, got)
		}
		hidden := with(managed(special("minimal", "read"), at(c.ws+"/sub", "read")), "cwd", uri(c.ws))
		s = hidden
		no("fs/readDirectory", c.dir+"/none", -32004, "os error 2")
		no("fs/getMetadata", c.ws+"/f", -32004, "os error 2")
		// A command may have put a link into a writable directory. No operation follows the link.
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
			t.Errorf(`got %v; want a text without "outside", a text with "sub"`, got)
		}
		if got := ask("fs/readDirectory", c.ws)["entries"].([]any); len(got) != 1 {
			t.Errorf("got %v, want len(got) 1", got)
		}
		c.untouched()
		c.quiet()
	})
}

// TestHelperOfReading: a helper that reads a file in a sandbox may open as many files as the server,
// although it is started with a limit of zero.
func TestHelperOfReading(t *testing.T) {
	t.Parallel()
	harness.EachBackend(t, []string{machine.Namespaces, machine.Bwrap, machine.Landlock}, func(t *testing.T, backend string) {
		c := confinedBy(t, harness.Codex, "--sandbox-backend", backend)
		c.call("fs/open", object{"handleId": "h", "path": uri("/etc/passwd"), "sandbox": with(managed(special("root", "read")), "cwd", uri(c.ws))})
		helpers := slices.DeleteFunc(descendants(os.Getpid()), func(pid int) bool {
			words, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			name, _, _ := strings.Cut(string(words), "\x00")
			return filepath.Base(name) != "codex-fs"
		})
		if len(helpers) == 0 {
			t.Fatal("no helper runs")
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", helpers[0]))
		harness.Must(t, err)
		var limit unix.Rlimit
		harness.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
		soft := regexp.MustCompile(`(?m)^Max open files +(\d+) `).FindSubmatch(text)
		if len(soft) == 0 {
			t.Fatalf("no limit of open files: %s", text)
		}
		if n, err := strconv.ParseUint(string(soft[1]), 10, 64); err != nil || n+1 < limit.Max {
			t.Errorf("it may open %s files of %d, %v", soft[1], limit.Max, err)
		}
	})
}

// TestReplacedDenial: between reads, another process exchanges a denied directory with another directory, and
// then its parent. The directory that is at the path afterwards is denied, and all others are readable.
func TestReplacedDenial(t *testing.T) {
	t.Parallel()
	onBoth(t, func(c *confined) {
		ws := c.dir + "/denial"
		defer os.RemoveAll(ws)
		above := ws + "/above"
		for _, dir := range []string{ws, above + "/denied", above + "/other", ws + "/above2/denied"} {
			harness.Must(t, os.MkdirAll(dir, 0o755))
			harness.Must(t, os.WriteFile(dir+"/file", []byte("secret"), 0o644))
		}
		s := with(managed(special("root", "read"), at(above+"/denied", "deny")), "cwd", uri(ws))
		exchange := func(a, b string) {
			for _, pair := range [][2]string{{a, a + ".x"}, {b, a}, {a + ".x", b}} {
				harness.Must(t, os.Rename(pair[0], pair[1]))
			}
		}
		reads := func() {
			t.Helper()
			if got := c.call("fs/readFile", object{"path": uri(ws + "/file"), "sandbox": s})["dataBase64"]; got != encode("secret") {
				t.Errorf("got %v, want %q", got, encode("secret"))
			}
			c.refuse("fs/readFile", object{"path": uri(above + "/denied/file"), "sandbox": s}, -32600, "Permission denied (os error 13)")
		}
		for _, pair := range [][2]string{{above + "/denied", above + "/other"}, {above, ws + "/above2"}} {
			reads()
			exchange(pair[0], pair[1])
			reads()
		}
	})
}

// TestConfinedRename: renaming works within writable paths only.
func TestConfinedRename(t *testing.T) {
	t.Parallel()
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
		// Rename between two writable roots, which are two mounts.
		harness.Must(t, os.Mkdir(c.dir+"/second", 0o755))
		s = with(managed(special("root", "read"), special("project_roots", "write"), at(c.dir+"/second", "write")), "cwd", uri(c.ws))
		no(c.ws+"/f", c.dir+"/second/f", -32600, "copy with fs/copy, then remove the source with fs/remove")
		// Renaming a link that leads outside renames the link itself.
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

// TestConfinedAttributes: changing attributes and creating links works within writable paths only.
func TestConfinedAttributes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(c *confined) {
		s := c.usual()
		set := func(path string) object {
			return object{"path": uri(path), "permissions": 0o600, "modifiedAtMs": 1000, "sandbox": s}
		}
		link := func(path string) object { return object{"path": uri(path), "target": c.dir + "/outside", "sandbox": s} }
		c.call("fs/writeFile", object{"path": uri(c.ws + "/own"), "dataBase64": encode("own"), "atomic": true, "permissions": 0o640, "sandbox": s})
		if st, err := os.Stat(c.ws + "/own"); err != nil || st.Mode() != 0o640 {
			t.Errorf("got st %v, error %v; want no error, st.Mode() 0o640", st, err)
		}
		c.call("fs/setAttributes", set(c.ws+"/own"))
		if st, err := os.Stat(c.ws + "/own"); err != nil || st.Mode() != 0o600 || !st.ModTime().Equal(time.Unix(1, 0)) {
			t.Errorf("got st %v, error %v; want no error, st.Mode() 0o600, st.ModTime().Equal(time.Unix(1, 0))", st, err)
		}
		c.call("fs/symlink", link(c.ws+"/link"))
		got := c.call("fs/getAttributes", object{"path": uri(c.ws + "/link"), "sandbox": s})
		if got["kind"] != "symlink" || got["target"] != c.dir+"/outside" {
			t.Errorf(`got %v; want got["kind"] "symlink", got["target"] %v`, got, c.dir+"/outside")
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
	t.Parallel()
	onBoth(t, func(c *confined) {
		s := c.usual()
		open := func(id, path, mode string, more ...any) object {
			return with(object{"handleId": id, "path": uri(path), "mode": mode, "sandbox": s}, more...)
		}
		c.call("fs/open", open("r", c.ws+"/f", "read"))
		if got := c.call("fs/readBlock", object{"handleId": "r", "offset": 1, "len": 2}); got["chunk"] != encode("ex") || got["eof"] != false {
			t.Errorf(`got %v; want got["chunk"] encode("ex"), got["eof"] false`, got)
		}
		if got := c.call("fs/readBlock", object{"handleId": "r", "offset": 2, "len": 100}); got["chunk"] != encode("xt") || got["eof"] != true {
			t.Errorf(`got %v; want got["chunk"] encode("xt"), got["eof"] true`, got)
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

		// An abandoned write has no effect.
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
