package sandbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// changes returns the events of a watch of the tree at dir, up to the event that ends with last. It
// omits unimportant kinds.
func (c *confined) changes(last string) []string {
	c.t.Helper()
	var told []string
	for {
		m := c.wait(func(m message) bool { return m.Method == "fs/changed" })
		var n struct {
			Events          []struct{ Path, Kind string }
			Ended, Overflow any
		}
		harness.Must(c.t, json.Unmarshal(m.Params, &n))
		if n.Ended != nil || n.Overflow != nil {
			c.t.Fatalf("told %s", m.Params)
		}
		for _, e := range n.Events {
			told = append(told, strings.TrimPrefix(e.Path, uri(c.dir)+"/"))
			if strings.HasSuffix(e.Path, last) {
				return told
			}
		}
	}
}

// TestWatchTellsWhatMayBeRead: a watch under a profile does not report denied paths. It reports
// neither a masked file nor new files that a pattern denies. It also does not report a masked file
// after another process has recreated it, so that the file's mask is lost.
func TestWatchTellsWhatMayBeRead(t *testing.T) {
	t.Parallel()
	onBoth(t, func(c *confined) {
		harness.Must(t, os.MkdirAll(c.ws+"/closed/below", 0o755))
		profile := with(managed(special("root", "read"), special("project_roots", "write"),
			at(c.ws+"/secret", "deny"), at(c.ws+"/closed", "deny"),
			object{"path": object{"type": "glob_pattern", "pattern": c.ws + "/**/*.env"}, "access": "deny"}), "cwd", uri(c.ws))
		c.call("fs/watch", object{"watchId": 1, "path": uri(c.dir), "recursive": true, "sandbox": profile})
		write := func(names ...string) {
			for _, name := range names {
				harness.Must(t, os.WriteFile(filepath.Join(c.ws, name), []byte("x"), 0o644))
			}
		}
		write("secret", "closed/a", "closed/below/b", "new.env", "sub/new.env", "sub/one")
		if got := c.changes("sub/one"); strings.Join(got, " ") != "ws/sub/one" {
			t.Errorf("told %q", got)
		}
		harness.Must(t, os.Remove(c.ws+"/secret"))
		harness.Must(t, os.RemoveAll(c.ws+"/closed"))
		harness.Must(t, os.MkdirAll(c.ws+"/closed/below", 0o755))
		write("secret", "closed/a", "closed/below/b", "two")
		// Earlier writes to the file may be reported after its creation.
		got := slices.DeleteFunc(c.changes("two"), func(name string) bool { return name == "ws/sub/one" })
		if strings.Join(got, " ") != "ws/two" {
			t.Errorf("told %q", got)
		}
		c.refuse("fs/watch", object{"watchId": 2, "path": uri(c.ws + "/closed"), "sandbox": profile}, -32600, "Permission denied")
		c.refuse("fs/watch", object{"watchId": 2, "path": uri(c.ws + "/secret"), "sandbox": profile}, -32600, "Permission denied")
	})
}

// TestWatchOfFewRoots: under a profile that permits reading only a few roots, the watch reports
// only changes in them.
func TestWatchOfFewRoots(t *testing.T) {
	t.Parallel()
	onBoth(t, func(c *confined) {
		profile := with(managed(special("minimal", "read"), at(c.ws, "read")), "cwd", uri(c.ws))
		c.call("fs/watch", object{"watchId": 1, "path": uri(c.ws), "recursive": true, "sandbox": profile})
		harness.Must(t, os.WriteFile(c.ws+"/one", nil, 0o644))
		if got := c.changes("one"); strings.Join(got, " ") != "ws/one" {
			t.Errorf("told %q", got)
		}
		outside := filepath.Join(c.dir, "other")
		harness.Must(t, os.Mkdir(outside, 0o755))
		m := c.answer(c.send("fs/watch", object{"watchId": 2, "path": uri(outside), "recursive": true, "sandbox": profile}))
		if m.Error == nil {
			t.Errorf("a directory outside of the roots is watched")
		}
		// The directory above the root may be visible as a part of the root's path. The watch does
		// not report its other entries.
		m = c.answer(c.send("fs/watch", object{"watchId": 3, "path": uri(c.dir), "recursive": true, "sandbox": profile}))
		harness.Must(t, os.WriteFile(filepath.Join(c.dir, "hidden"), nil, 0o644))
		harness.Must(t, os.WriteFile(c.ws+"/two", nil, 0o644))
		if got := c.changes("two"); strings.Contains(strings.Join(got, " "), "hidden") {
			t.Errorf("told %q (answer %s)", got, m.Result)
		}
		c.call("fs/unwatch", object{"watchId": 1})
		c.call("fs/unwatch", object{"watchId": 3})
		harness.Eventually(t, "helpers that are left", func() []string {
			var left []string
			for _, pid := range descendants(c.pid) {
				if text, _ := os.ReadFile(filepath.Join("/proc", jsonNumber(pid), "comm")); strings.HasPrefix(string(text), "codex-fs") {
					left = append(left, jsonNumber(pid))
				}
			}
			return left
		})
	})
}

func jsonNumber(n int) string {
	text, _ := json.Marshal(n)
	return string(text)
}
