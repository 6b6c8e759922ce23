package plan

import (
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

// trial is one random host and policy with the result.
type trial struct {
	t         *testing.T
	host      memory
	list      string
	plan      *Plan
	policy    *permissions.Policy // by the entries
	effective *permissions.Policy // by the targets of entries
	reopen    []string            // paths of entries that grant something
	denied    []string            // targets of denying entries
	narrowed  []string            // targets of entries that do not grant writing
	kept      []string            // targets of entries that narrow or grant writing, but not patterns
	model     *model
	complaint string
}

func (x *trial) complain(format string, args ...any) {
	if x.complaint == "" {
		x.complaint = fmt.Sprintf(format, args...)
	}
}

// newTrial returns nil if the plan was refused, which is permitted if there are
// links in paths.
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

// holds checks what must never be: a denied file of the host is visible, or a
// read-only one can be changed, under any name.
func (x *trial) holds() {
	x.model.reachable(func(at place) {
		q := at.node.host
		if q == "" || at.node.link != "" {
			return
		}
		// A folder between / and a readable path may be visible if nothing else
		// in it is; the launcher makes it itself.
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
			if !granted && !slices.ContainsFunc(x.plan.Undo, func(u UndoName) bool { return permissions.Within(child, u.Path) }) {
				x.complain("%s is not writable and can be made or replaced", child)
			}
		}
	})
}

// keeps checks that no path of an entry is in a directory that can be renamed:
// the next command would find it under another name, and would find a
// replacement by the command at the old name.
func (x *trial) keeps(renamed string) {
	for _, k := range x.kept {
		// A missing path that another entry grants is not mounted.
		missing := x.host.at(k) == nil && x.effective.Access(k) == permissions.Write
		if k != renamed && permissions.Within(k, renamed) && !missing {
			x.complain("%s loses its name when %s is renamed", k, renamed)
		}
	}
}

// serves checks, on a host without links, that granted access works: existing
// readable paths can be read, and writable ones can be written, unless a
// placeholder is in the way.
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

// frozen reports whether a writable path still cannot be written: the target of
// a .git file, a file that must not become a folder, and a path that must stay
// missing because of a path in it. A path that is missing in a folder that is
// not writable itself cannot be created either.
func (x *trial) frozen(p string, exists bool) bool {
	for _, w := range x.policy.WritableRoots() {
		for _, r := range w.ReadOnly {
			if r.Default && permissions.Within(p, r.Path) {
				return true
			}
		}
		for _, at := range w.Repository {
			if permissions.Within(p, at) || exists && !x.host.at(p).dir && permissions.Within(at, p) {
				return true
			}
		}
	}
	if exists {
		// If a path below a file must stay missing, the file must stay a file.
		return !x.host.at(p).dir && slices.ContainsFunc(x.narrowed, func(n string) bool { return n != p && permissions.Within(n, p) })
	}
	for _, m := range x.plan.Mounts {
		if m.Placeholder && permissions.Within(p, m.Target) {
			return true
		}
	}
	return !x.effective.CanWrite(path.Dir(p))
}

// leads checks, on a host with links, that granted files are found by the
// entries' own paths.
func (x *trial) leads() {
	for _, p := range x.reopen {
		real, err := permissions.EffectivePath(x.host, p)
		if n := x.host.at(real); err != nil || n == nil || n.host == "" || n.link != "" || real == "/" {
			continue
		}
		// A link in a denied folder is not found.
		lost := func(at string) bool {
			return slices.ContainsFunc(x.denied, func(d string) bool { return d != at && permissions.Within(at, d) })
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
