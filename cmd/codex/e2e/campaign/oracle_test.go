package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOracle: what the oracle allows, on a small tree.
func TestOracle(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"t/w/.git/hooks", "t/w/sub/nested", "t/w/d/open", "t/real", "v"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("real", filepath.Join(top, "t/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(top, "t/w/sub/f1"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	o := newOracle(top, "t/w", []entry{
		{"root", "read"}, {"t/w", "write"}, {"t/w/d", "deny"}, {"t/w/d/open", "read"}, {"t/w/sub/nested", "write"},
		{"t/link", "write"}, {"t/w/gone/deep", "deny"}, {"glob:t/w/**/f?", "deny"}, {"v", "write"}, {"v", "deny"},
	})
	for _, test := range []struct {
		path              string
		read, write, move bool
	}{
		{"t", true, false, false},
		{"t/w", true, true, false},
		{"t/w/new", true, true, true},
		{"t/w/.git", true, false, false},
		{"t/w/.git/hooks", true, false, false},
		{"t/w/.codex", true, false, false},     // must not come to be
		{"t/w/sub", true, true, false},         // holds what must keep its name
		{"t/w/sub/nested/x", true, true, true}, // below a root of its own
		{"t/w/sub/nested/.git", true, false, false},
		{"t/w/sub/f1", false, false, true}, // masked, but patterns pin nothing
		{"t/w/d", false, false, false},
		{"t/w/d/x", false, false, false},
		{"t/w/d/open", true, false, false},
		{"t/w/gone", true, true, false},
		{"t/w/gone/deep", false, false, false},
		{"t/real/x", true, true, true}, // by the link
		{"t/link", true, false, false}, // the link itself is not granted
		{"v", false, false, false},     // deny beats write
	} {
		p := filepath.Join(top, test.path)
		if r, w, m := o.canRead(p, true), o.canWrite(p, true), o.canMove(p); r != test.read || w != test.write || m != test.move {
			t.Errorf("%s: read %v, write %v, move %v; want %v %v %v", test.path, r, w, m, test.read, test.write, test.move)
		}
	}
	whole := newOracle(top, "t", []entry{{"root", "write"}, {"t", "write"}})
	if p := filepath.Join(top, "t/w/.git"); !whole.canWrite(p, true) || !whole.canMove(p) {
		t.Error("where nothing is narrowed, something is protected")
	}
}

// TestScenariosAreMadeAgain: a seed means the same scenario every time.
func TestScenariosAreMadeAgain(t *testing.T) {
	for seed := range uint64(50) {
		a, b := generate(seed, "namespaces", 1), generate(seed, "namespaces", 1)
		if len(a.Nodes) != len(b.Nodes) || len(a.Entries) != len(b.Entries) {
			t.Fatalf("seed %d", seed)
		}
		for i := range a.Entries {
			if a.Entries[i] != b.Entries[i] {
				t.Fatalf("seed %d: %v and %v", seed, a.Entries[i], b.Entries[i])
			}
		}
	}
}

// TestHiddenEntries: which file systems hide what the sandbox does not promise to
// find.
func TestHiddenEntries(t *testing.T) {
	for _, test := range []struct {
		backend string
		shared  bool
		dir     string
		entry   entry
		hides   bool
	}{
		{"namespaces", true, "t/a", entry{"t/a/b", "deny"}, false},
		{"namespaces", true, "t/a", entry{"t/a/b", "read"}, false},
		{"namespaces", false, "t/a", entry{"t/a/b", "write"}, true},
		{"namespaces", false, "t/a", entry{"t/ab", "write"}, false},
		{"namespaces", false, "t/a", entry{"workspace/.git", "write"}, true},
		{"namespaces", false, "t/a", entry{"t/a/link/x", "deny"}, true},
		{"namespaces", false, "t/a", entry{"glob:t/*/x", "deny"}, true},
		{"namespaces", false, "v", entry{"t/a/link/x", "deny"}, true},
		{"namespaces", false, "t/b", entry{"t/a/link/x", "deny"}, false},
		{"bwrap", false, "t/a", entry{"t/a/b", "deny"}, false},
		{"bwrap", true, "t/a", entry{"t/a/b", "deny"}, true},
		{"landlock", false, "t/a", entry{"t/a/b", "deny"}, true},
	} {
		g := &generator{s: &scenario{Backend: test.backend, Shared: test.shared, Workspace: "t/a/w", Nodes: []node{{Path: "t/a/link", Kind: "link", Text: "@/v/r"}}}, links: []string{"t/a/link"}}
		if got := g.hides(test.dir, test.entry); got != test.hides {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

// TestExposedFIFOs: which FIFOs a command may write to because docs/security.md does
// not promise that it cannot.
func TestExposedFIFOs(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"t/w/.git", "t/w/r", "t/w/d", "t/o"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	o := newOracle(top, "t/w", []entry{{"root", "read"}, {"t/w", "write"}, {"t/w/r", "read"}, {"t/w/d", "deny"}, {"t/o/p", "read"}})
	for _, test := range []struct {
		path, backend, inside string
		exposed               bool
	}{
		{"t/w/r/p", "namespaces", "", true},
		{"t/w/.git/p", "bwrap", "", true},
		{"t/w/d/p", "namespaces", "", false}, // masked
		{"t/o/p", "namespaces", "", false},   // Landlock grants nothing there
		{"t/w/r/p", "landlock", "", false},
		{"t/w/r/p", "landlock", "landlock", false},
		{"t/w/r/p", "landlock", "bwrap", true},
	} {
		w := &world{scenario: &scenario{Backend: test.backend, Inside: test.inside}, top: top}
		if got := w.exposed(filepath.Join(top, test.path), []*oracle{o}); got != test.exposed {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

// TestGrantedMetadata: an entry that names .git opens that name, also if it is a link.
func TestGrantedMetadata(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(top+"/t", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(top+"/t", top+"/t/.git"); err != nil {
		t.Fatal(err)
	}
	entries := []entry{{"root", "read"}, {"t", "write"}}
	for _, granted := range []bool{false, true} {
		if granted {
			entries = append(entries, entry{"t/.git", "write"})
		}
		if o := newOracle(top, "t", entries); o.canMove(top+"/t/.git") != granted || o.canMove(top+"/t/.codex") {
			t.Errorf("granted: %v, and .git may be moved: %v, .codex: %v", granted, !granted, o.canMove(top+"/t/.codex"))
		}
	}
}
