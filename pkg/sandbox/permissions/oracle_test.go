package permissions

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/testutil"
)

// oracle is a slow and simple implementation of a policy of literal entries, root entries and deny
// globs. Each rule of docs/spec/sandbox.md §2 is a loop over all entries.
type oracle struct {
	entries []Entry
	view    memory
	cwd     string
}

func (o oracle) at(e Entry) string {
	if e.Path.Kind == Root {
		return "/"
	}
	return e.Path.Text
}

func (o oracle) paths() (list []Entry) {
	for _, e := range o.entries {
		if e.Path.Kind != Glob {
			list = append(list, Entry{Path{Text: o.at(e)}, e.Access})
		}
	}
	return list
}

func components(p string) []string {
	return strings.FieldsFunc(p, func(r rune) bool { return r == '/' })
}

// inside reports whether p is root or below, by components.
func inside(p, root string) bool {
	a, b := components(p), components(root)
	return len(a) >= len(b) && slices.Equal(a[:len(b)], b)
}

func (o oracle) access(p string) Access {
	longest, best := -1, Deny
	for _, e := range o.paths() {
		if !inside(p, e.Path.Text) {
			continue
		}
		if n := len(components(e.Path.Text)); n > longest || n == longest && e.Access > best {
			longest, best = n, e.Access
		}
	}
	return best
}

func (o oracle) fullWrite() bool {
	root := false
	for _, e := range o.entries {
		if e.Path.Kind == Root && e.Access == Write {
			root = true
			continue
		}
		if e.Access == Write && e.Path.Kind != Glob || e.Path.Kind == Root && e.Access == Read {
			continue
		}
		same := e.Access == Read && e.Path.Kind == Literal && slices.ContainsFunc(o.paths(), func(w Entry) bool {
			return w.Access == Write && w.Path.Text == e.Path.Text
		})
		if !same {
			return false
		}
	}
	return root
}

func (o oracle) canWrite(p string) bool {
	if o.access(p) != Write {
		return false
	}
	if o.fullWrite() {
		return true
	}
	for _, e := range o.paths() {
		root := e.Path.Text
		if e.Access != Write || !inside(p, root) || p == root {
			continue
		}
		name := components(p)[len(components(root))]
		if name != ".git" && name != ".agents" && name != ".codex" {
			continue
		}
		m := path.Join(root, name)
		if !slices.ContainsFunc(o.paths(), func(g Entry) bool {
			return g.Access == Write && inside(g.Path.Text, m) && inside(p, g.Path.Text)
		}) {
			return false
		}
	}
	return true
}

// real resolves all links of a path by replacing the first link and starting again. It fails if the
// path does not exist.
func (o oracle) real(p string) (string, bool) {
	for range 100 {
		parts := components(p)
		again := false
		for i := range parts {
			at := "/" + strings.Join(parts[:i+1], "/")
			text, ok := o.view[at]
			if !ok {
				return "", false
			}
			if target, link := strings.CutPrefix(text, "->"); link {
				if !path.IsAbs(target) {
					target = path.Dir(at) + "/" + target
				}
				// The targets in this test have no .. after a link.
				p, again = path.Clean(target+"/"+strings.Join(parts[i+1:], "/")), true
				break
			}
		}
		if !again {
			return path.Clean(p), true
		}
	}
	return "", false
}

func (o oracle) effective(p string) string {
	for a, rest := p, ""; ; a, rest = path.Dir(a), path.Join(path.Base(a), rest) {
		if at, ok := o.real(a); ok {
			return path.Join(at, rest)
		}
	}
}

func (o oracle) writableRoots() (list []string) {
	if o.fullWrite() {
		return nil
	}
	for _, e := range o.paths() {
		at := o.effective(e.Path.Text)
		denied := slices.ContainsFunc(o.paths(), func(d Entry) bool { return d.Access == Deny && o.effective(d.Path.Text) == at })
		if e.Access == Write && !denied && o.canWrite(e.Path.Text) && !slices.Contains(list, at) {
			list = append(list, at)
		}
	}
	return list
}

func (o oracle) unreadable() (list []string) {
	for _, e := range o.paths() {
		at := o.effective(e.Path.Text)
		if e.Access == Deny && e.Path.Text != "/" && o.access(e.Path.Text) == Deny && !slices.Contains(list, at) {
			list = append(list, at)
		}
	}
	return list
}

// readOnly returns the carve-outs of entries for a root, spelled below the root.
func (o oracle) readOnly(root WritableRoot) (list []string) {
	for _, e := range o.paths() {
		p := e.Path.Text
		if e.Access == Write || o.canWrite(p) {
			continue
		}
		at := ""
		if root.Path != "/" {
			names := []string{root.Path}
			for _, w := range o.paths() {
				if w.Access == Write && o.canWrite(w.Path.Text) && o.effective(w.Path.Text) == root.Effective {
					names = append(names, w.Path.Text)
				}
			}
			for _, name := range names {
				if inside(p, name) && p != name && at == "" {
					at = path.Join(root.Path, strings.TrimPrefix(p, name))
				}
			}
		}
		if eff := o.effective(p); at == "" && inside(eff, root.Effective) && eff != root.Effective {
			at = path.Join(root.Path, strings.TrimPrefix(eff, root.Effective))
		}
		if at != "" && !slices.Contains(list, at) {
			list = append(list, at)
		}
	}
	return list
}

var oracleNames = []string{"a", "b", "c", ".git", ".codex", "x.env", "ax.env", "u"}

func randomPath(r *rand.Rand, depth int) string {
	p := "/"
	for range r.IntN(depth + 1) {
		p = path.Join(p, oracleNames[r.IntN(len(oracleNames))])
	}
	return p
}

// randomTree makes a tree in which every parent is a directory and links lead
// to absolute paths.
func randomTree(r *rand.Rand) memory {
	m := memory{"/": ""}
	for range r.IntN(25) {
		at := randomPath(r, 4)
		taken := false
		for a := range ancestors(path.Dir(at)) {
			taken = taken || m[a] != ""
		}
		if _, ok := m[at]; ok || taken {
			continue
		}
		for a := range ancestors(path.Dir(at)) {
			m[a] = ""
		}
		switch r.IntN(4) {
		case 0:
			m[at] = "text"
		case 1:
			m[at] = "->" + randomPath(r, 3)
		default:
			m[at] = ""
		}
	}
	return m
}

func randomEntries(r *rand.Rand) []Entry {
	patterns := []string{"/a/*", "/a/**/x.env", "/b/*.env", "/a/?", "/a/**/[bc]", "/c/.g*/**", "/a/b/**"}
	entries := make([]Entry, 0, 8)
	for range r.IntN(8) {
		e := Entry{Path{Text: randomPath(r, 3)}, Access(1 + r.IntN(3))}
		switch r.IntN(8) {
		case 0:
			e.Path = Path{Kind: Root}
		case 1:
			e = Entry{Path{Kind: Glob, Text: patterns[r.IntN(len(patterns))]}, Deny}
		}
		entries = append(entries, e)
	}
	return entries
}

func TestPoliciesAgreeWithAnOracle(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	rounds := testutil.Rounds(500, 1000, 3000)
	for range rounds {
		o := oracle{entries: randomEntries(r), view: randomTree(r), cwd: "/a"}
		p := Resolve(FileSystem{Entries: o.entries}, Scope{Cwd: o.cwd}, o.view)
		if diff := o.compare(r, p); diff != "" {
			t.Fatalf("seed %d: %s\nentries %+v\ntree %q", seed, diff, o.entries, o.view)
		}
	}
}

func (o oracle) compare(r *rand.Rand, p *Policy) string {
	if p.FullWrite() != o.fullWrite() {
		return fmt.Sprintf("full write %v", p.FullWrite())
	}
	for range 10 {
		at := randomPath(r, 5)
		if got, want := p.Access(at), o.access(at); got != want {
			return fmt.Sprintf("access(%s) %s, want %s", at, got, want)
		}
		if got, want := p.CanWrite(at), o.canWrite(at); got != want {
			return fmt.Sprintf("canWrite(%s) %v, want %v", at, got, want)
		}
		if got, _ := EffectivePath(o.view, at); got != o.effective(at) {
			return fmt.Sprintf("effective(%s) %s, want %s", at, got, o.effective(at))
		}
	}
	var effective []string
	for _, root := range p.WritableRoots() {
		effective = append(effective, root.Effective)
		if o.effective(root.Path) != root.Effective {
			return fmt.Sprintf("root %+v", root)
		}
		var explicit []string
		for _, ro := range root.ReadOnly {
			if !ro.Default {
				explicit = append(explicit, ro.Path)
			}
		}
		if want := o.readOnly(root); !slices.Equal(explicit, want) {
			return fmt.Sprintf("root %+v, want read-only %q", root, want)
		}
		for _, name := range metadataNames {
			if o.canWrite(path.Join(root.Path, name)) && slices.Contains(root.Names, name) {
				return fmt.Sprintf("root %+v protects %s", root, name)
			}
		}
	}
	if want := o.writableRoots(); !slices.Equal(effective, want) {
		return fmt.Sprintf("writable %q, want %q", effective, want)
	}
	if got, want := p.UnreadableRoots(), o.unreadable(); !slices.Equal(got, want) {
		return fmt.Sprintf("unreadable %q, want %q", got, want)
	}
	got, err := p.ExpandGlobs()
	if want := o.globs(); err != nil || !slices.Equal(got, want) {
		return fmt.Sprintf("globs %q (%v), want %q", got, err, want)
	}
	return ""
}

// globs searches the whole tree for each pattern.
func (o oracle) globs() []string {
	list := []string{}
	for _, e := range o.entries {
		if e.Path.Kind != Glob {
			continue
		}
		root := path.Dir(e.Path.Text[:strings.IndexAny(e.Path.Text, "*?[")])
		top, ok := o.real(root)
		if !ok || o.view[top] != "" {
			continue
		}
		for at, text := range o.view {
			if !inside(at, top) || at == top {
				continue
			}
			if !slowMatch(e.Path.Text, path.Join(root, strings.TrimPrefix(at, top))) {
				continue
			}
			list = append(list, at)
			if strings.HasPrefix(text, "->") {
				if target, ok := o.real(at); ok && target != "/" {
					list = append(list, target)
				}
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// slowMatch matches one component after the other, and tries every possibility.
func slowMatch(pattern, at string) bool {
	return slowComponents(components(pattern), components(at))
}

func slowComponents(pattern, at []string) bool {
	switch {
	case len(pattern) == 0:
		return len(at) == 0
	case pattern[0] == "**" && len(pattern) == 1:
		return len(at) > 0
	case pattern[0] == "**":
		return slowComponents(pattern[1:], at) || len(at) > 0 && slowComponents(pattern, at[1:])
	case len(at) == 0:
		return false
	}
	ok, err := path.Match(pattern[0], at[0])
	return err == nil && ok && slowComponents(pattern[1:], at[1:])
}
