package skills

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/execproto"
	"golang.org/x/sys/unix"
)

// tree makes files below a new directory; a name that ends with a slash is a
// directory.
func tree(t *testing.T, contents map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range contents {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(full, 0o700)
		} else {
			err = os.WriteFile(full, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func discover(t *testing.T, paths ...string) []execproto.CapabilityRoot {
	t.Helper()
	roots := make([]Root, len(paths))
	for i, p := range paths {
		roots[i] = Root{ID: "r", URI: p, Path: p}
	}
	found, err := Discover(t.Context(), roots)
	if err != nil || len(found) != len(roots) {
		t.Fatalf("%d roots, %v", len(found), err)
	}
	return found
}

// below returns the paths of files relative to the directory, or "-" if there are none.
func below(dir string, list ...*execproto.CapabilityFile) string {
	var names []string
	for _, f := range list {
		if f == nil {
			names = append(names, "-")
		} else {
			names = append(names, strings.TrimPrefix(f.Path, "file://"+dir+"/"))
		}
	}
	return strings.Join(names, " ")
}

func TestManifestNamesFilesBelowTheRoot(t *testing.T) {
	const start, remain = "path must start with `./`", "path must remain below the capability root"
	for _, c := range []struct{ manifest, files, warning string }{
		{`{"mcpServers":"./m.json","apps":"./sub/a.json"}`, "m.json sub/a.json", ""},
		{`{}`, ".mcp.json .app.json", ""},
		{`no JSON`, ".mcp.json .app.json", ""},
		{`{"mcpServers":"./m.json"} x`, ".mcp.json .app.json", ""},
		{`{"mcpServers":{"a":{}},"apps":[]}`, "- .app.json", ""},
		{`{"mcpServers":"./missing"}`, "- .app.json", ""},
		{`{"mcpServers":"m.json"}`, ".mcp.json .app.json", start},
		{`{"mcpServers":"/etc/passwd"}`, ".mcp.json .app.json", start},
		{`{"mcpServers":"./"}`, ".mcp.json .app.json", remain},
		{`{"mcpServers":"./."}`, ".mcp.json .app.json", remain},
		{`{"mcpServers":".//etc/passwd"}`, ".mcp.json .app.json", remain},
		{`{"mcpServers":"./sub/../m.json"}`, ".mcp.json .app.json", remain},
		{`{"mcpServers":"./a\u0000b"}`, ".mcp.json .app.json", remain},
		{`{"apps":"../a"}`, ".mcp.json .app.json", start},
	} {
		dir := tree(t, map[string]string{
			".codex-plugin/plugin.json": c.manifest, "m.json": "", "sub/a.json": "", ".mcp.json": "", ".app.json": "",
		})
		r := discover(t, dir)[0]
		if r.Error != nil || r.Plugin == nil {
			t.Fatalf("%s: got %v; want r.Error nil, r.Plugin that is not nil", c.manifest, r)
		}
		if got := below(dir, r.Plugin.MCPConfig, r.Plugin.AppsConfig); got != c.files {
			t.Errorf("%s: got %s, want %s", c.manifest, got, c.files)
		}
		if len(r.Warnings) > 1 || c.warning == "" != (len(r.Warnings) == 0) || c.warning != "" && !strings.HasSuffix(r.Warnings[0], c.warning) {
			t.Errorf("%s: got %q, want %q", c.manifest, r.Warnings, c.warning)
		}
	}
}

func TestNamespacesAreTheNearestAboveAndAllBelow(t *testing.T) {
	dir := tree(t, map[string]string{
		".codex-plugin/plugin.json": "far", "a/.claude-plugin/plugin.json": "near", "a/b/": "", "a/b/y/.cursor-plugin/plugin.json": "",
		"a/b/x/.codex-plugin/plugin.json": "", "a/b/x/.cursor-plugin/plugin.json": "not this one",
	})
	names := func(r execproto.CapabilityRoot) string {
		var list []*execproto.CapabilityFile
		for i := range r.NamespaceManifests {
			list = append(list, &r.NamespaceManifests[i])
		}
		return below(dir, list...)
	}
	found := discover(t, dir+"/a/b", dir+"/a/b/x")
	want := "a/.claude-plugin/plugin.json a/b/x/.codex-plugin/plugin.json a/b/y/.cursor-plugin/plugin.json"
	if got := names(found[0]); got != want || found[0].Plugin != nil {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := names(found[1]); got != "a/b/x/.codex-plugin/plugin.json" || found[1].Plugin == nil {
		t.Errorf("the root's own manifest: got %s", got)
	}
}

// TestHostileFilesAreLeftOut: hostile files are not read, do not block the search, and cause no
// error of the root.
func TestHostileFilesAreLeftOut(t *testing.T) {
	dir := tree(t, map[string]string{
		"ok/SKILL.md": "text", "ok/agents/openai.yaml": "y", "large/SKILL.md": strings.Repeat("x", maxFile+1), "bytes/SKILL.md": "\xff",
		"dir/SKILL.md/": "", "link/": "", "fifo/": "", ".codex-plugin/": "",
	})
	for _, name := range []string{"fifo/SKILL.md", ".codex-plugin/plugin.json"} {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"link/SKILL.md": "../ok/SKILL.md", "loop": "."} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	r := discover(t, dir)[0]
	if r.Error != nil || r.Plugin != nil || len(r.Skills) != 1 || below(dir, &r.Skills[0].Instructions, r.Skills[0].Metadata) !=
		"ok/SKILL.md ok/agents/openai.yaml" {
		t.Errorf("got %+v", r)
	}
	want := []string{
		"capability file file://" + dir + "/bytes/SKILL.md is not UTF-8: it has an invalid byte",
		"capability file file://" + dir + "/large/SKILL.md exceeds the 1048576-byte limit",
	}
	if !slices.Equal(r.Warnings, want) {
		t.Errorf("got %q, want %q", r.Warnings, want)
	}
}

// TestAllRootsHaveALimit: a client cannot request gigabytes by naming one directory many times.
func TestAllRootsHaveALimit(t *testing.T) {
	contents := make(map[string]string)
	for _, name := range strings.Split("abcdefghijklmnop", "") {
		contents[name+"/SKILL.md"] = strings.Repeat("x", maxFile)
	}
	dir := tree(t, contents)
	found := discover(t, dir, dir, dir, dir, dir)
	for i, r := range found {
		if full := i < MaxBytes/maxRoot; full != (r.Error == nil) || full != (len(r.Skills) == len(contents)) {
			t.Errorf("root %d: %d skills, %v", i, len(r.Skills), r.Error)
		}
	}
}

func TestWarningsAreBounded(t *testing.T) {
	contents := make(map[string]string)
	for i := range maxWarnings + 5 {
		contents[strings.Repeat("d", 1+i%100)+string(rune('a'+i/100))+"/SKILL.md"] = "\xff"
	}
	r := discover(t, tree(t, contents))[0]
	if n := len(r.Warnings); n != maxWarnings+1 || r.Warnings[n-1] != "there are further warnings" {
		t.Errorf("%d warnings", n)
	}
}

func TestRootsThatAreNone(t *testing.T) {
	dir := tree(t, map[string]string{"f": ""})
	for name, want := range map[string]string{
		"/f":    "capability root file://" + dir + "/f is not a directory",
		"/none": "failed to inspect capability root file://" + dir + "/none: No such file or directory (os error 2): " + dir + "/none",
	} {
		if r := discover(t, dir+name)[0]; r.Error == nil || *r.Error != want {
			t.Errorf("%s: got %v, want %s", name, r.Error, want)
		}
	}
}

func TestDiscoverEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Discover(ctx, []Root{{Path: t.TempDir()}}); err == nil {
		t.Error("there is no error")
	}
}

func FuzzParseManifest(f *testing.F) {
	for _, s := range []string{`{"mcpServers":"./a","apps":"./b"}`, `{"mcpServers":{}}`, `[]`, `{"apps":1,"apps":"x"}`, "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n := ParseManifest(text)
		if n.inline && n.servers != nil {
			return // a duplicate member
		}
		for _, named := range []*string{n.servers, n.apps} {
			d := &discovery{root: "/root/of/all"}
			if at := d.below("m", named, ".default", "manifest"); !strings.HasPrefix(at, "/root/of/all/") {
				t.Errorf("%q leads to %s", text, at)
			}
		}
	})
}
