package campaign

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// oracle computes what a policy permits a command to do, on the files as they are before any
// process runs. It is written as simply as possible, even if it is slow. It implements the rules of
// docs/sandbox.md and uses no code of the program. It is an upper bound: any effect beyond it is a
// breach.
//
//   - Links in a path are resolved first. Of the entries that contain the path, the
//     longest takes precedence. Of equal ones, deny takes precedence over write, and
//     write over read. Without an entry, nothing is permitted.
//   - .git, .agents and .codex directly below a writable directory are read-only, or
//     must not be created, unless an entry grants them or a path in them. The same
//     holds for the directory that a .git file points to.
//   - A name can be removed only if its directory is writable and the name contains
//     no path that must keep its name.
type oracle struct {
	rules []rule
	// granted are the paths that entries make writable, by name. Scenario: t/.git is a link to t,
	// and an entry grants t/.git. Then the link's target may be written, and the name is not
	// protected (docs/spec/sandbox.md §2.4; seed 11685190251768).
	granted []string
	guards  []string // paths whose names must stay, and whose contents must stay unless granted
	whole   bool     // the policy restricts no files
	// matched are the paths that patterns match. A path that a command renames may no
	// longer match.
	matched []string
}

type rule struct {
	path   string
	access access
}

type access int

const (
	none access = iota
	read
	write
)

func accessOf(name string) access {
	return map[string]access{"deny": none, "read": read, "write": write}[name]
}

// within reports whether p is top or below it.
func within(p, top string) bool {
	return p == top || strings.HasPrefix(p, strings.TrimSuffix(top, "/")+"/")
}

// effective returns a path in which all links of the existing part are resolved.
func effective(p string) string {
	if real, err := filepath.EvalSymlinks(p); err == nil {
		return real
	}
	if p == "/" {
		return p
	}
	return filepath.Join(effective(filepath.Dir(p)), filepath.Base(p))
}

// newOracle makes the oracle of a policy, for a scenario that has been laid out in top.
func newOracle(top, workspace string, entries []entry) *oracle {
	o := &oracle{}
	narrowed := false
	for _, e := range entries {
		at := ""
		switch {
		case e.Target == "root":
			at = "/"
		case e.Target == "minimal" || e.Target == "tmp":
			continue
		case strings.HasPrefix(e.Target, "workspace"):
			at = filepath.Join(top, workspace, strings.TrimPrefix(e.Target, "workspace"))
		case strings.HasPrefix(e.Target, "glob:"):
			o.matched = append(o.matched, matches(filepath.Join(top, strings.TrimPrefix(e.Target, "glob:")))...)
			narrowed = true
			continue
		default:
			at = filepath.Join(top, e.Target)
		}
		if e.Access == "write" {
			o.granted = append(o.granted, filepath.Join(effective(filepath.Dir(at)), filepath.Base(at)))
		}
		narrowed = narrowed || e.Access != "write"
		o.rules = append(o.rules, rule{effective(at), accessOf(e.Access)})
	}
	o.whole = !narrowed && o.access("/") == write
	if !o.whole {
		o.guard()
	}
	return o
}

func (o *oracle) access(p string) access {
	longest, best := -1, none
	for _, r := range o.rules {
		if !within(p, r.path) {
			continue
		}
		// At equal length deny takes precedence over write, and write over read.
		if n := len(r.path); n > longest || n == longest && (r.access == none || best != none && r.access > best) {
			longest, best = n, r.access
		}
	}
	return best
}

func (o *oracle) guard() {
	for _, r := range o.rules {
		if o.access(r.path) != write {
			o.guards = append(o.guards, r.path)
			continue
		}
		if info, err := os.Stat(r.path); err != nil || !info.IsDir() {
			continue
		}
		for _, name := range metadata {
			o.keep(filepath.Join(r.path, name))
		}
		if o.grants(filepath.Join(r.path, ".git")) {
			continue // a command may make it lead elsewhere (seed 1200288)
		}
		for _, target := range pointers(r.path) {
			o.keep(effective(target))
		}
	}
}

// keep adds a guard for a path unless an entry grants exactly that path.
func (o *oracle) keep(p string) {
	if !o.grants(p) {
		o.guards = append(o.guards, p)
	}
}

// grants reports whether an entry makes exactly this path writable, and no other entry forbids it.
func (o *oracle) grants(p string) bool {
	return slices.Contains(o.granted, p) && o.access(effective(p)) == write || slices.Contains(o.rules, rule{p, write}) && o.access(p) == write
}

// pointers returns the directories that a .git file leads to: the directory that it names, and the
// common directory that this one shares with others.
func pointers(dir string) []string {
	text, err := os.ReadFile(filepath.Join(dir, ".git"))
	target, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir:")
	if err != nil || !ok {
		return nil
	}
	target = strings.TrimSpace(target)
	if !filepath.IsAbs(target) {
		target = filepath.Join(dir, target)
	}
	found := []string{target}
	if text, err := os.ReadFile(filepath.Join(target, "commondir")); err == nil {
		common := strings.TrimSpace(string(text))
		if !filepath.IsAbs(common) {
			common = filepath.Join(target, common)
		}
		found = append(found, common)
	}
	return found
}

// canRead reports whether the contents at a path may be read. With globs, it takes patterns into
// account.
func (o *oracle) canRead(p string, globs bool) bool {
	return o.whole || o.access(p) >= read && !(globs && o.hidden(p))
}

func (o *oracle) hidden(p string) bool {
	return slices.ContainsFunc(o.matched, func(m string) bool {
		// An entry below a matched path permits that part again.
		return within(p, m) && !slices.ContainsFunc(o.rules, func(r rule) bool { return within(p, r.path) && within(r.path, m) && r.path != m })
	})
}

// canWrite reports whether the file at a path may be changed, or created there.
func (o *oracle) canWrite(p string, globs bool) bool {
	if o.whole {
		return true
	}
	if o.access(p) != write || globs && o.hidden(p) {
		return false
	}
	for _, g := range o.guards {
		granted := func(r rule) bool { return r.access == write && within(r.path, g) && within(p, r.path) }
		if within(p, g) && !slices.ContainsFunc(o.rules, granted) {
			return false
		}
	}
	return true
}

// canMove reports whether a name may be removed or renamed. A path that a pattern matches must keep
// its name only while its directories keep theirs.
func (o *oracle) canMove(p string) bool {
	if o.whole {
		return true
	}
	holds := slices.ContainsFunc(o.guards, func(g string) bool { return within(g, p) })
	return !holds && o.canWrite(filepath.Dir(p), false) && o.canWrite(p, false)
}

// matches tests each file below the fixed part of a pattern. It does not follow links. If a link
// matches, its target counts as a match.
func matches(pattern string) (found []string) {
	fixed := pattern
	for strings.ContainsAny(fixed, "*?[") {
		fixed = filepath.Dir(fixed)
	}
	fixed = effective(fixed)
	_ = filepath.WalkDir(fixed, func(p string, _ os.DirEntry, err error) error {
		if err == nil && matchParts(strings.Split(pattern, "/"), strings.Split(p, "/")) {
			found = append(found, effective(p))
		}
		return nil
	})
	return found
}

func matchParts(pattern, name []string) bool {
	if len(pattern) == 0 || len(name) == 0 {
		return len(pattern) == len(name)
	}
	if pattern[0] == "**" {
		return matchParts(pattern[1:], name) || matchParts(pattern, name[1:])
	}
	ok, _ := filepath.Match(pattern[0], name[0])
	return ok && matchParts(pattern[1:], name[1:])
}

// TestOracle checks the oracle on a small tree.
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
		{"t/w/.codex", true, false, false},     // it must not be created
		{"t/w/sub", true, true, false},         // it contains a path that must keep its name
		{"t/w/sub/nested/x", true, true, true}, // it is below another root
		{"t/w/sub/nested/.git", true, false, false},
		{"t/w/sub/f1", false, false, true}, // it is masked, but patterns do not protect names
		{"t/w/d", false, false, false},
		{"t/w/d/x", false, false, false},
		{"t/w/d/open", true, false, false},
		{"t/w/gone", true, true, false},
		{"t/w/gone/deep", false, false, false},
		{"t/real/x", true, true, true}, // granted by the link
		{"t/link", true, false, false}, // the link itself is not granted
		{"v", false, false, false},     // deny takes precedence over write
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

// TestScenariosAreMadeAgain: a seed always makes the same scenario.
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

// TestHiddenEntries checks which file systems hide paths that the sandbox does not promise to find.
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
			t.Errorf("%+v: got %v, want %v", test, got, test.hides)
		}
	}
}

// TestExposedFIFOs checks to which FIFOs a command may write, because docs/security.md does not
// promise to prevent it.
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
		{"t/o/p", "namespaces", "", false},   // Landlock grants no rights there
		{"t/w/r/p", "landlock", "", false},
		{"t/w/r/p", "landlock", "landlock", false},
		{"t/w/r/p", "landlock", "bwrap", true},
	} {
		w := &world{scenario: &scenario{Backend: test.backend, Inside: test.inside}, top: top}
		if got := w.exposed(filepath.Join(top, test.path), []*oracle{o}); got != test.exposed {
			t.Errorf("%+v: got %v, want %v", test, got, test.exposed)
		}
	}
}

// TestGrantedMetadata: an entry that names .git permits writing to that name, even if it is a link.
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
