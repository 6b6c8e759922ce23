package placeholders

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/plan"
)

// policy returns a profile that permits reading everything and writing below a directory, and that
// has more entries.
func policy(dir string, more ...permissions.Entry) permissions.Profile {
	entries := []permissions.Entry{
		{Path: permissions.Path{Kind: permissions.Root}, Access: permissions.Read},
		{Path: permissions.Path{Text: dir}, Access: permissions.Write},
	}
	return permissions.Profile{Kind: permissions.Managed, FileSystem: permissions.FileSystem{Entries: append(entries, more...)}}
}

// workspace makes a directory with a file in it.
func workspace(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err == nil {
		err = os.MkdirAll(dir+"/a/b", 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// If a pattern matches placeholders of another sandbox, this sandbox locks them while it masks
// them. Placeholders that are just being created are not masked.
func TestPatternsThatMatchPlaceholders(t *testing.T) {
	dir := workspace(t)
	placeholder, err := takePlaceholder(dir+"/.git", true, plan.FileID{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"empty", "full/x"} {
		if err := os.MkdirAll(filepath.Join(dir, plan.TempPrefix+name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	made, err := plan.Make(policy(dir, permissions.Entry{Path: permissions.Path{Kind: permissions.Glob, Text: dir + "/*"}, Access: permissions.Deny}),
		permissions.Scope{}, plan.HostView{}, false)
	if err != nil {
		t.Fatal(err)
	}
	masked := make(map[string]*plan.Mount)
	for i := range made.Mounts {
		if m := &made.Mounts[i]; m.Kind == plan.EmptyDir && !m.Placeholder {
			masked[filepath.Base(m.Target)] = m
		}
	}
	if masked["a"] == nil || masked[plan.TempPrefix+"full"] == nil || masked[plan.TempPrefix+"empty"] != nil {
		t.Errorf("masked are %v", masked)
	}
	m := masked[".git"]
	if m == nil || !m.Perhaps {
		t.Fatalf("masked are %v", masked)
	}
	joined, err := joinPlaceholder(m.Target, m.Dir)
	if err != nil || joined == nil {
		t.Fatal(joined, err)
	}
	placeholder.Release()
	if _, err := os.Lstat(m.Target); err != nil {
		t.Error("the placeholder is removed while it is held:", err)
	}
	joined.Release()
	if _, err := joinPlaceholder(m.Target, m.Dir); !errors.Is(err, plan.ErrAppeared) {
		t.Error("it is gone:", err)
	}
	if s, err := joinPlaceholder(dir+"/a", m.Dir); s != nil || err != nil {
		t.Error("it is no placeholder:", s, err)
	}
}

// A placeholder of another sandbox is not a writable root.
func TestPlaceholdersAreNoRoots(t *testing.T) {
	dir := workspace(t)
	placeholder, err := takePlaceholder(dir+"/gone", false, plan.FileID{})
	if err != nil {
		t.Fatal(err)
	}
	defer placeholder.Release()
	made, err := plan.Make(policy(dir, permissions.Entry{Path: permissions.Path{Text: dir + "/gone"}, Access: permissions.Write},
		permissions.Entry{Path: permissions.Path{Text: dir + "/gone/.agents"}, Access: permissions.Deny}), permissions.Scope{}, plan.HostView{}, false)
	if err != nil {
		t.Fatal(err)
	}
	masked := false
	for _, m := range made.Mounts {
		if m.Target == dir+"/gone" {
			masked = masked || m.Placeholder
			if m.Kind == plan.BindWritable {
				t.Errorf("got %+v, want m.Kind other than %v", m, plan.BindWritable)
			}
		}
	}
	if !masked {
		t.Error("it is not masked")
	}
}
