package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/sandbox/permissions"
)

// moving is a host on which a directory is moved away after some accesses to files, and moved back
// after some more.
type moving struct {
	memory
	dir      string
	from, to int
	looks    *int
}

func (m moving) Lstat(name string) (permissions.Info, error) {
	*m.looks++
	if n := *m.looks; permissions.Within(name, m.dir) && m.from <= n && n < m.to {
		return permissions.Info{Type: permissions.Missing}, nil
	}
	return m.memory.Lstat(name)
}

// If another program moves a directory away and back while the plan is made, no writable root loses
// its guards, whenever that happens. The plan is made again.
func TestDirectoriesThatMoveWhileThePlanIsMade(t *testing.T) {
	host := tree("/t/c/w/.git/", "/t/c/w/.agents/", "/t/c/w/.codex/", "/t/c/w/secret", "/t/c/w/kept")
	profile := managed(t, "root=read /t/c/w=write /t/c/w/secret=deny /t/c/w/kept=read")
	quiet := 0
	want, err := Make(profile, permissions.Scope{}, moving{memory: host, looks: &quiet}, false)
	if err != nil {
		t.Fatal(err)
	}
	again := 0
	for from := range quiet {
		for _, long := range []int{1, 4, 16, 64} {
			looks := 0
			plan, err := Make(profile, permissions.Scope{}, moving{host, "/t/c", from, from + long, &looks}, false)
			if err != nil {
				t.Errorf("hidden from look %d, for %d: %v", from, long, err)
				continue
			}
			checkGuards(t, from, plan, want)
			if looks > quiet {
				again++
			}
		}
	}
	if again == 0 {
		t.Error("no plan was made again")
	}
}

// If a directory is moved all the time, the plan is refused.
func TestDirectoriesThatMoveAllTheTime(t *testing.T) {
	host := tree("/t/c/w/.git/", "/t/c/w/.agents/", "/t/c/w/.codex/")
	looks := 0
	_, err := Make(managed(t, "root=read /t/c/w=write"), permissions.Scope{}, restless{moving{memory: host, dir: "/t/c/w/.git", looks: &looks}}, false)
	var moved *inconsistent
	if !errors.As(err, &moved) || moved.path != "/t/c/w/.git" {
		t.Errorf(`got error %v; want errors.As(err, &moved), moved.path "/t/c/w/.git"`, err)
	}
}

// restless is a host on which a directory exists at every second access.
type restless struct{ moving }

func (r restless) Lstat(name string) (permissions.Info, error) {
	if name != r.dir {
		return r.memory.Lstat(name)
	}
	if *r.looks++; *r.looks%2 == 0 {
		return permissions.Info{}, nil
	}
	return r.memory.Lstat(name)
}

// checkGuards checks that every writable path has the right guards.
func checkGuards(t *testing.T, from int, got, want *Plan) {
	t.Helper()
	targets := func(plan *Plan) (list []string) {
		for _, m := range plan.Mounts {
			list = append(list, m.Target)
		}
		return list
	}
	writable := false
	for _, m := range got.Mounts {
		writable = writable || m.Kind == BindWritable && m.Target == "/t/c/w"
	}
	if !writable {
		return
	}
	have := " " + strings.Join(targets(got), " ") + " "
	for _, target := range targets(want) {
		if !strings.Contains(have, " "+target+" ") {
			t.Errorf("after %d looks: %s has no mount in %s", from, target, have)
		}
	}
}

// exchanged is a host on which some lookups see a link in place of a directory.
type exchanged struct {
	memory
	with     memory
	from, to int
	looks    *int
}

func (x exchanged) now() memory {
	*x.looks++
	if n := *x.looks; x.from <= n && n < x.to {
		return x.with
	}
	return x.memory
}

func (x exchanged) Lstat(name string) (permissions.Info, error) { return x.now().Lstat(name) }
func (x exchanged) Readlink(name string) (string, error)        { return x.now().Readlink(name) }

func (x exchanged) ReadDir(name string, each func(string, permissions.FileType) error) error {
	return x.now().ReadDir(name, each)
}

// If another command exchanges a directory in a writable root with a link while
// the plan is made, nothing is shown that no entry grants.
func TestDirectoriesThatAreExchangedWhileThePlanIsMade(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	directory := tree("/w/g/", "/w/.git/", "/w/.agents/", "/w/.codex/", "/secret/x")
	link := tree("/w/g -> /secret", "/w/.git/", "/w/.agents/", "/w/.codex/", "/secret/x")
	for _, entries := range []string{"/w=write /w/g=write", "/w=write /w/g=read", "root=read /w=write /w/g=write"} {
		profile := managed(t, entries)
		made := 0
		for from := range 200 {
			for _, long := range []int{1, 2, 3, 5, 8, 13, 21, 34, 55, 1000} {
				looks := 0
				plan, err := Make(profile, permissions.Scope{}, exchanged{directory, link, from, from + long, &looks}, false)
				if err != nil {
					continue
				}
				made++
				for _, m := range plan.Mounts {
					if permissions.Within(m.Source, "/secret") {
						t.Fatalf("%s, from look %d for %d: %s", entries, from, long, line(m))
					}
				}
			}
		}
		if made == 0 {
			t.Errorf("%s: no plan was made", entries)
		}
	}
}

// holding is such a host. The plan keeps the directory at a path open, if it
// was a directory when it was examined.
type holding struct {
	exchanged
	dir string
}

func (h holding) Walk() (permissions.View, func()) { return h, func() {} }

func (h holding) Lstat(name string) (permissions.Info, error) {
	info, err := h.exchanged.Lstat(name)
	if name != h.dir && permissions.Within(name, h.dir) {
		return h.memory.Lstat(name)
	}
	return info, err
}

// If a denied path is in a directory of a writable root that another process
// exchanges with a link while the plan is made, either the path is masked, or
// nothing runs.
func TestDeniedPathsThatAreExchangedWhileThePlanIsMade(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	rest := []string{"/t/c/.git/", "/t/c/.agents/", "/t/c/.codex/", "/t/v/x"}
	directory := tree(append([]string{"/t/c/sw/y/secret"}, rest...)...)
	link := tree(append([]string{"/t/c/sw -> /t/v"}, rest...)...)
	for _, entries := range []string{"root=read /t/c=write /t/c/sw/y=deny", "/t/c=write /t/c/sw/y=deny", "root=read /t/c=write /t/c/sw/y=deny /t/c/sw/y/secret=read"} {
		profile := managed(t, entries)
		made := 0
		for from := range 150 {
			for _, long := range []int{1, 2, 3, 5, 8, 13, 21, 34, 55, 1000} {
				looks := 0
				plan, err := Make(profile, permissions.Scope{}, holding{exchanged{directory, link, from, from + long, &looks}, "/t/c/sw"}, false)
				if err != nil {
					continue
				}
				made++
				if !slices.ContainsFunc(plan.Mounts, func(m Mount) bool { return m.Target == "/t/c/sw/y" && m.Kind == EmptyDir }) {
					t.Fatalf("%s: a link from look %d, for %d: /t/c/sw/y has no mask:%s", entries, from, long, dumpPlan(plan))
				}
			}
		}
		if made == 0 {
			t.Errorf("%s: no plan was made", entries)
		}
	}
}

// Below a denied directory nothing is masked, because the mask would need a placeholder in that
// directory.
func TestNothingIsCoveredBelowADeniedDirectory(t *testing.T) {
	plan, err := Make(managed(t, "root=read /w=write /w/d=deny /w/d/gone/deep=deny /w/d/none=read"), permissions.Scope{},
		tree("/w/d/x", "/w/.git/", "/w/.agents/", "/w/.codex/"), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range plan.Mounts {
		if m.Target != "/w/d" && permissions.Within(m.Target, "/w/d") {
			t.Errorf(`got %s, want not permissions.Within(m.Target, "/w/d")`, line(m))
		}
	}
}

// A denied path that is hidden while the plan is made, outside of every writable
// root, is masked, or must be absent from the view, whenever it is hidden.
func TestDeniedPathsThatAreHiddenForAWhile(t *testing.T) {
	host := tree("/r/d/secret", "/w/")
	profile := managed(t, "root=read /w=write /r/d=deny")
	quiet := 0
	if _, err := Make(profile, permissions.Scope{}, moving{memory: host, looks: &quiet}, false); err != nil {
		t.Fatal(err)
	}
	absent := 0
	for from := range quiet {
		for _, long := range []int{1, 4, 16, 64} {
			looks := 0
			plan, err := Make(profile, permissions.Scope{}, moving{host, "/r", from, from + long, &looks}, false)
			switch {
			case err != nil:
				t.Errorf("hidden from look %d: %v", from, err)
			case slices.Contains(plan.Absent, "/r/d"):
				absent++
			case !slices.ContainsFunc(plan.Mounts, func(m Mount) bool { return m.Kind == EmptyDir && m.Target == "/r/d" }):
				t.Errorf("hidden from look %d, for %d: neither masked nor absent", from, long)
			}
		}
	}
	if absent == 0 {
		t.Error("it was never hidden")
	}
}
