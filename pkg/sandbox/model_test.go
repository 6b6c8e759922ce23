package sandbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/testutil"
)

// model is what a command sees when the mounts of a plan have been made, one
// after the other as the launcher makes them, on a host in memory. It has
// mounts as the kernel has them: attached to a place of another mount.
type model struct {
	host   memory
	mounts []attached
	over   map[place]int // the mount at a place
	made   []string
	empty  bool // the root is
}

type attached struct {
	root     *node
	readOnly bool
}

// place is a node as seen through a mount.
type place struct {
	mount int
	node  *node
}

var errMissing = errors.New("it is missing")

// build makes the mounts. An error is one that the launcher would meet.
func build(plan *Plan, host memory) (*model, error) {
	m := &model{host: host, over: map[place]int{}, empty: plan.Root == RootEmpty}
	root := attached{root: host.root, readOnly: plan.Root == RootReadOnly}
	if m.empty {
		root.root = &node{dir: true, kids: map[string]*node{}, mode: 0o755}
	}
	m.mounts = []attached{root}
	for _, mt := range plan.Mounts {
		// What is covered is there as a stub.
		if mt.Cover && host.at(mt.Target) == nil {
			host.add(mt.Target, &node{dir: !mt.File, mode: 0o555})
			host.at(mt.Target).host = ""
		}
	}
	for _, mt := range plan.Mounts {
		if err := m.mount(mt); err != nil {
			return m, fmt.Errorf("mount on %s: %w", mt.Target, err)
		}
	}
	m.mounts[0].readOnly = plan.Root != RootWritable
	return m, nil
}

func (m *model) mount(mt Mount) error {
	if mt.Kind == Link {
		m.parents(Mount{Target: path.Dir(mt.Target)})
		dir, err := m.find(path.Dir(mt.Target), false)
		if err != nil || dir.mount != 0 || dir.node.kids[path.Base(mt.Target)] != nil {
			return errors.New("no place for the link")
		}
		dir.node.kids[path.Base(mt.Target)] = &node{link: mt.Source}
		return nil
	}
	m.parents(mt)
	a := attached{readOnly: mt.Kind != BindWritable}
	switch mt.Kind {
	case BindReadOnly, BindWritable:
		if a.root = m.host.at(mt.Source); a.root == nil || a.root.link != "" {
			return errors.New("the source is missing or a link")
		}
		if a.root.dir == mt.File {
			return errors.New("the kind of the source is wrong")
		}
	case EmptyFile:
		a.root = &node{mode: mt.Mode}
	case EmptyDir:
		a.root = &node{dir: true, kids: map[string]*node{}, mode: mt.Mode}
		for _, h := range mt.Holes {
			at := a.root
			for part := range strings.SplitSeq(path.Dir(h.Path), "/") {
				if part != "." {
					at = at.kids[part]
				}
			}
			at.kids[path.Base(h.Path)] = &node{dir: !h.File, kids: map[string]*node{}, mode: mt.Mode}
		}
	default:
		return errors.New("unknown kind")
	}
	at, err := m.find(mt.Target, false)
	if err != nil {
		return err
	}
	if at.node.dir != a.root.dir {
		return errors.New("a directory on a file, or the other way round")
	}
	m.mounts = append(m.mounts, a)
	m.over[at] = len(m.mounts) - 1
	m.made = append(m.made, mt.Target)
	return nil
}

// parents makes what a target needs in an empty root.
func (m *model) parents(mt Mount) {
	if !m.empty || slices.ContainsFunc(m.made, func(made string) bool { return below(mt.Target, made) }) {
		return
	}
	for at := range prefixes(mt.Target) {
		parent, err := m.find(path.Dir(at), true)
		if err != nil || parent.mount != 0 || parent.node.kids[path.Base(at)] != nil {
			continue
		}
		parent.node.kids[path.Base(at)] = &node{dir: at != mt.Target || !mt.File, kids: map[string]*node{}, mode: 0o755}
	}
}

// top is what is seen at a place.
func (m *model) top(at place) place {
	for {
		over, ok := m.over[at]
		if !ok {
			return at
		}
		at = place{over, m.mounts[over].root}
	}
}

// find goes to a path as a program without capabilities does; while the view
// is built (follow false), links are not followed and modes do not count.
func (m *model) find(name string, follow bool) (place, error) {
	for range 40 {
		at := m.top(place{0, m.mounts[0].root})
		rest, link := strings.Trim(name, "/"), ""
		for rest != "" {
			var part string
			part, rest, _ = strings.Cut(rest, "/")
			switch {
			case !at.node.dir:
				return at, errMissing
			case follow && !at.node.searchable():
				return at, errors.New("it may not be searched")
			case at.node.kids[part] == nil:
				return at, errMissing
			}
			at = m.top(place{at.mount, at.node.kids[part]})
			if at.node.link != "" {
				link = at.node.link
				break
			}
		}
		if link == "" {
			return at, nil
		}
		if !follow {
			return at, errors.New("it is, or lies behind, a link")
		}
		name = path.Join(link, rest)
	}
	return place{}, errors.New("too many links")
}

func (n *node) searchable() bool { return n.host != "" || n.mode&0o100 != 0 }

// shows reports whether a path leads to something of the host.
func (m *model) shows(name string) bool {
	at, err := m.find(name, true)
	return err == nil && at.node.host != ""
}

// changes reports whether what a path names can be changed or, if there is
// nothing, made.
func (m *model) changes(name string) bool {
	at, err := m.find(name, true)
	if err == nil {
		return at.node.host != "" && !m.mounts[at.mount].readOnly
	}
	if !errors.Is(err, errMissing) {
		return false
	}
	at, err = m.find(path.Dir(name), true)
	return err == nil && at.node.dir && at.node.host != "" && at.node.kids[path.Base(name)] == nil && !m.mounts[at.mount].readOnly
}

// reachable yields all places that can be reached by name.
func (m *model) reachable(f func(place)) {
	seen := map[place]bool{}
	var visit func(place)
	visit = func(at place) {
		if seen[at] {
			return
		}
		seen[at] = true
		f(at)
		if !at.node.dir || !at.node.searchable() {
			return
		}
		for _, kid := range at.node.kids {
			visit(m.top(place{at.mount, kid}))
		}
	}
	visit(m.top(place{0, m.mounts[0].root}))
}

// names are those in random trees; those of metadata are common.
var names = []string{"a", "b", "c", "d.env", ".git", ".agents", ".codex"}

// random makes hosts and policies.
type random struct{ *rand.Rand }

func (r random) path(maxDepth int) string {
	name := ""
	for range 1 + r.IntN(maxDepth) {
		name += "/" + names[r.IntN(len(names))]
	}
	return name
}

// host makes a tree; with links, some of its nodes are symbolic links.
func (r random) host(links bool) memory {
	m := tree("/w/")
	for range 4 + r.IntN(16) {
		at := r.path(4)
		if r.IntN(2) == 0 {
			at = "/w" + at
		}
		// Nothing lies behind a link or a file.
		if r.blocked(m, at) {
			continue
		}
		switch n := r.IntN(10); {
		case n < 5:
			m.add(at, &node{dir: true})
		case n < 6 && path.Base(at) == ".git":
			m.add(at, &node{text: "gitdir: " + r.somewhere(m) + "\n"})
		case n < 8 && links:
			m.add(at, &node{link: r.somewhere(m)})
		case n < 9:
			m.add(at, &node{text: "text"})
		default:
			m.add(at, &node{})
		}
	}
	return m
}

func (r random) blocked(m memory, at string) bool {
	for up := range prefixes(at) {
		if n := m.at(up); n != nil && !n.dir {
			return true
		}
	}
	return false
}

// somewhere is a path of the host, or, seldom, one that is missing.
func (r random) somewhere(m memory) string {
	if r.IntN(6) == 0 {
		return r.path(3)
	}
	var all []string
	m.root.each(func(n *node) {
		if n != m.root {
			all = append(all, n.host)
		}
	})
	if r.IntN(8) == 0 {
		return path.Join(all[r.IntN(len(all))], names[r.IntN(len(names))])
	}
	return all[r.IntN(len(all))]
}

// policy makes a list of entries as text.
func (r random) policy(m memory) string {
	var words []string
	switch n := r.IntN(20); {
	case n < 11:
		words = append(words, "root=read")
	case n < 14:
		words = append(words, "root=write")
	}
	if r.IntN(3) > 0 {
		words = append(words, "/w=write")
	}
	if r.IntN(6) == 0 {
		words = append(words, "project_roots/.git=read", "project_roots/.codex=read")
	}
	if r.IntN(5) == 0 {
		words = append(words, "glob:"+[]string{"/w/**/*.env", "**/b", "/a/*", "/w/.git/**/c", "*/[ab]"}[r.IntN(5)]+"=deny")
	}
	for range 1 + r.IntN(6) {
		words = append(words, r.somewhere(m)+"="+[]string{"read", "write", "write", "deny", "deny"}[r.IntN(5)])
	}
	return strings.Join(words, " ")
}

// dump shows a host as the lines that make it.
func dump(m memory) string {
	var lines []string
	m.root.each(func(n *node) {
		switch {
		case n == m.root:
		case n.dir:
			lines = append(lines, n.host+"/")
		case n.link != "":
			lines = append(lines, n.host+" -> "+n.link)
		default:
			lines = append(lines, strings.TrimSpace(n.host+" "+n.text))
		}
	})
	return "  " + strings.Join(lines, "\n  ")
}

func dumpPlan(plan *Plan) string {
	lines := []string{fmt.Sprintf("  root %d, undo %v", plan.Root, plan.Undo)}
	for _, m := range plan.Mounts {
		lines = append(lines, "  "+line(m))
	}
	return strings.Join(lines, "\n")
}

// trial is one random host and policy with what came of it.
type trial struct {
	t         *testing.T
	host      memory
	list      string
	plan      *Plan
	policy    *permissions.Policy // by what the entries say
	effective *permissions.Policy // by where they lead
	reopen    []string            // paths of entries that grant something
	denied    []string            // where entries that deny lead
	narrowed  []string            // where entries that grant no writing lead
	kept      []string            // where entries lead that narrow or grant writing, but not patterns
	model     *model
	complaint string
}

func (x *trial) complain(format string, args ...any) {
	if x.complaint == "" {
		x.complaint = fmt.Sprintf(format, args...)
	}
}

// newTrial returns nil if the plan was refused, as it may be when links are in
// the way.
func newTrial(t *testing.T, host memory, list string) *trial {
	x := &trial{t: t, host: host, list: list}
	profile := managed(t, list)
	scope := permissions.Scope{Cwd: "/w"}
	if profile.FullWrite() {
		return nil
	}
	plan, err := Make(profile, scope, host, false)
	if err != nil {
		if !strings.Contains(err.Error(), "because it crosses writable symlink") && !strings.Contains(err.Error(), "too many levels") {
			x.complain("refused: %v", err)
			return x
		}
		return nil
	}
	x.plan = plan
	x.policy = permissions.Resolve(profile.FileSystem, scope, host)
	fs := permissions.FileSystem{}
	add := func(at string, access permissions.Access) {
		real, err := permissions.EffectivePath(host, at)
		if n := host.at(real); err != nil || n != nil && n.link != "" && access != permissions.Write {
			return // it leads nowhere
		}
		fs.Entries = append(fs.Entries, permissions.Entry{Path: permissions.Path{Text: real}, Access: access})
		if access != permissions.Deny {
			x.reopen = append(x.reopen, at)
		}
		if access == permissions.Deny {
			x.denied = append(x.denied, real)
		}
		if access != permissions.Write {
			x.narrowed = append(x.narrowed, real)
		}
	}
	for _, e := range profile.FileSystem.Entries {
		switch e.Path.Kind {
		case permissions.Literal:
			add(e.Path.Text, e.Access)
		case permissions.Root:
			add("/", e.Access)
		case permissions.ProjectRoots:
			add(path.Join("/w", e.Path.Subpath), e.Access)
		}
	}
	x.kept = slices.Clone(x.narrowed)
	for _, w := range x.policy.WritableRoots() {
		if n := host.at(w.Effective); n != nil && n.link == "" {
			x.kept = append(x.kept, w.Effective)
		}
	}
	matches, err := x.policy.ExpandGlobs()
	if err != nil {
		x.complain("globs: %v", err)
	}
	for _, at := range matches {
		add(at, permissions.Deny)
	}
	x.effective = permissions.Resolve(fs, permissions.Scope{Cwd: "/w"}, host)
	if x.model, err = build(plan, host); err != nil {
		x.complain("cannot be built: %v", err)
	}
	return x
}

// holds checks what must never be: something of the host is seen that is
// denied, or can be changed that is read-only, by whatever name.
func (x *trial) holds() {
	x.model.reachable(func(at place) {
		q := at.node.host
		if q == "" || at.node.link != "" {
			return
		}
		// A folder between / and what may be read is seen, if nothing else of it
		// is; the launcher makes it itself.
		if x.effective.Access(q) == permissions.Deny {
			x.complain("%s is denied and can be read", q)
		}
		if x.model.mounts[at.mount].readOnly {
			return
		}
		if !x.effective.CanWrite(q) && q != "/" {
			x.complain("%s is not writable and can be written", q)
		}
		if !at.node.dir {
			return
		}
		for _, name := range names {
			child := path.Join(q, name)
			if kid := at.node.kids[name]; kid != nil && x.model.top(place{at.mount, kid}).mount != at.mount {
				continue // a mount cannot be moved or removed
			} else if kid != nil && kid.dir && kid.host != "" {
				x.keeps(kid.host)
			}
			// Metadata may be granted by the path of a link.
			granted := x.effective.CanWrite(child) || x.effective.Access(child) == permissions.Write && x.policy.CanWrite(child)
			if !granted && !slices.ContainsFunc(x.plan.Undo, func(u UndoName) bool { return below(child, u.Path) }) {
				x.complain("%s is not writable and can be made or replaced", child)
			}
		}
	})
}

// keeps checks that nothing that an entry names lies in a directory that can
// be renamed: the next command would find it under another name, and what the
// command puts in its place under its own.
func (x *trial) keeps(renamed string) {
	for _, k := range x.kept {
		// What is missing, and granted by another entry, is not mounted.
		missing := x.host.at(k) == nil && x.effective.Access(k) == permissions.Write
		if k != renamed && below(k, renamed) && !missing {
			x.complain("%s loses its name when %s is renamed", k, renamed)
		}
	}
}

// serves checks that what is granted is there, on a host without links: what
// may be read and exists can be read, and what may be written can be, unless
// a cover is in the way.
func (x *trial) serves(before []string) {
	for _, w := range x.policy.WritableRoots() {
		for _, at := range w.Repository {
			if x.model.changes(at) {
				x.complain("the repository leads to %s, which can be changed", at)
			}
		}
	}
	for _, p := range before {
		if x.effective.Access(p).CanRead() && !x.model.shows(p) {
			x.complain("%s may be read and cannot be", p)
		}
	}
	for _, dir := range append(before, "/") {
		for _, name := range names {
			p := path.Join(dir, name)
			exists := slices.Contains(before, p)
			if n := x.host.at(dir); n == nil || !n.dir || !x.effective.CanWrite(p) || x.frozen(p, exists) {
				continue
			}
			if !x.model.changes(p) {
				x.complain("%s may be written and cannot be", p)
			}
		}
	}
}

// frozen reports whether a path that may be written cannot be all the same:
// what a .git file points to, a file that must not become a folder, and, if it
// is missing, what must be missing for the sake of something in it. What is
// missing in a folder that may not be written itself cannot be made either.
func (x *trial) frozen(p string, exists bool) bool {
	for _, w := range x.policy.WritableRoots() {
		for _, r := range w.ReadOnly {
			if r.Default && below(p, r.Path) {
				return true
			}
		}
		for _, at := range w.Repository {
			if below(p, at) || exists && !x.host.at(p).dir && below(at, p) {
				return true
			}
		}
	}
	if exists {
		// A file below which a path must stay missing stays a file.
		return !x.host.at(p).dir && slices.ContainsFunc(x.narrowed, func(n string) bool { return n != p && below(n, p) })
	}
	for _, m := range x.plan.Mounts {
		if m.Cover && below(p, m.Target) {
			return true
		}
	}
	return !x.effective.CanWrite(path.Dir(p))
}

// leads checks, on a host with links, that what entries grant is found by the
// entries' own paths.
func (x *trial) leads() {
	for _, p := range x.reopen {
		real, err := permissions.EffectivePath(x.host, p)
		if n := x.host.at(real); err != nil || n == nil || n.host == "" || n.link != "" || real == "/" {
			continue
		}
		// A link in a denied folder is not found.
		lost := func(at string) bool {
			return slices.ContainsFunc(x.denied, func(d string) bool { return d != at && below(at, d) })
		}
		if slices.ContainsFunc((&planner{view: x.host}).links(nil, p), func(l Mount) bool { return lost(l.Target) }) {
			continue
		}
		if x.policy.Access(p).CanRead() && x.effective.Access(real).CanRead() && !x.model.shows(p) {
			x.complain("%s, which is %s, may be read and cannot be", p, real)
		}
	}
}

func try(t *testing.T, seed uint64, links bool) (complaint string, refused bool) {
	r := random{rand.New(rand.NewPCG(seed, 1))}
	host := r.host(links)
	list := r.policy(host)
	return tryOn(t, host, list, links)
}

func tryOn(t *testing.T, host memory, list string, links bool) (complaint string, refused bool) {
	text := dump(host)
	var before []string
	host.root.each(func(n *node) {
		if n != host.root {
			before = append(before, n.host)
		}
	})
	x := newTrial(t, host, list)
	if x == nil {
		return "", true
	}
	if x.complaint == "" {
		x.holds()
		if links {
			x.leads()
		} else {
			x.serves(before)
		}
	}
	if x.complaint == "" {
		return "", false
	}
	plan := "  none"
	if x.plan != nil {
		plan = dumpPlan(x.plan)
	}
	return fmt.Sprintf("%s\nhost:\n%s\nentries: %s\nplan:\n%s", x.complaint, text, list, plan), false
}

// TestPlansOfHostsThatWereFound tries hosts and policies that the random search
// has found plans to be wrong for.
func TestPlansOfHostsThatWereFound(t *testing.T) {
	for _, tt := range []struct {
		name    string
		host    []string
		entries string
		links   bool
	}{
		{
			"the .git above a writable root that is missing leads into a workspace",
			[]string{"/a/.git gitdir: /w/a/b", "/w/a/b text"},
			"root=read /w=write /a/c=write", false,
		},
		{
			"the .git above is a file that the missing writable root would lie below",
			[]string{"/.codex/.git gitdir: /w/a", "/w/.git/", "/w/a/"},
			"root=read /w=write /.codex/.git/.git=write", false,
		},
		{
			"and leads to what is missing, with a denied pattern",
			[]string{"/b/.agents/d.env/.git gitdir: /w/d.env/d.env", "/w/b/", "/w/d.env/"},
			"/w=write glob:**/b=deny /b/.agents/d.env/.git/.agents=write", false,
		},
		{
			"and lies in the workspace, is denied, and leads to a directory above itself",
			[]string{"/w/d.env/.codex/.git gitdir: /w/d.env"},
			"root=read /w=write /.git/b=write /w/d.env/.codex/c=write /w/d.env/.codex/.git=deny", false,
		},
		{
			"a pattern denies the writable root whose .git leads into a workspace",
			[]string{"/p/b/.git gitdir: /w/meta", "/w/a/"},
			"root=read /w=write /p/b=write glob:/p/*=deny", false,
		},
		{
			"one of two spellings of what may be read is a link of a workspace",
			[]string{"/w/.codex -> /w/.git", "/w/.git/", "/c/b/"},
			"project_roots/.git=read project_roots/.codex=read /c/b=deny", true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			complaint, refused := tryOn(t, tree(tt.host...), tt.entries, tt.links)
			if complaint != "" || refused {
				t.Errorf("refused: %v, %s", refused, complaint)
			}
		})
	}
}

// TestPlansMeanWhatPoliciesSay compares the mounts of plans with what policies
// say about each path, on random hosts.
func TestPlansMeanWhatPoliciesSay(t *testing.T) {
	count := testutil.Rounds[uint64](50, 200, 1000)
	seed := uint64(time.Now().UnixNano())
	for _, links := range []bool{false, true} {
		t.Run(fmt.Sprintf("links=%v", links), func(t *testing.T) {
			refusals := uint64(0)
			for i := range count {
				complaint, refused := try(t, seed+i, links)
				if refused {
					refusals++
				}
				if complaint != "" {
					t.Fatalf("seed %d: %s", seed+i, complaint)
				}
			}
			if refusals*2 > count {
				t.Errorf("seed %d: %d of %d were refused: little was tried", seed, refusals, count)
			}
		})
	}
}

// line shows a mount, as the tests write it.
func line(m Mount) string {
	text := m.Target
	switch m.Kind {
	case BindReadOnly:
		text = "ro " + text
		if m.Source != m.Target {
			text += " from " + m.Source
		}
	case BindWritable:
		text = "rw " + text
	case Link:
		text = "link " + text + " -> " + m.Source
	case EmptyDir:
		text = fmt.Sprintf("dir %03o %s", m.Mode, text)
		for _, h := range m.Holes {
			text += " +" + h.Path
			if !h.File {
				text += "/"
			}
		}
	case EmptyFile:
		text = fmt.Sprintf("file %03o %s", m.Mode, text)
	}
	if m.Cover && m.Kind != BindReadOnly {
		text += " cover"
	}
	return text
}
