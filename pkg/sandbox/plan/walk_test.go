package plan

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/sandbox/permissions"
	"golang.org/x/sys/unix"
)

// swapping is the host's file system, on which something happens before a look
// at a path.
type swapping struct {
	HostView
	before string
	swap   func()
	always bool
}

type swappingWalk struct {
	permissions.View
	s *swapping
}

func (s *swapping) Walk() (permissions.View, func()) {
	w, done := s.HostView.Walk()
	return swappingWalk{w, s}, done
}

func (w swappingWalk) Lstat(name string) (permissions.Info, error) {
	if name == w.s.before && w.s.swap != nil {
		w.s.swap()
		if !w.s.always {
			w.s.swap = nil
		}
	}
	return w.View.Lstat(name)
}

func exchange(t *testing.T, a, b string) {
	t.Helper()
	if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
		t.Fatal(err)
	}
}

// testTree makes a directory with w/a and w/b; a contains a denied file.
func testTree(t *testing.T) string {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"w/a/secret", "w/b/other"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

// When two directories are exchanged while the plan is made, no plan combines
// the name of one with the contents of the other.
func TestDirectoriesExchangedBetweenLooks(t *testing.T) {
	top := testTree(t)
	a, b := filepath.Join(top, "w/a"), filepath.Join(top, "w/b")
	profile := managed(t, "root=read "+top+"/w=write "+a+"/secret=deny")
	host := &swapping{before: a + "/secret", swap: func() { exchange(t, a, b) }}
	plan, err := Make(profile, permissions.Scope{}, host, false)
	if err != nil {
		t.Fatal(err)
	}
	now, err := HostView{}.Lstat(a)
	if err != nil {
		t.Fatal(err)
	}
	pinned, masked := false, false
	for _, m := range plan.Mounts {
		pinned = pinned || m.Target == a && m.Pin && m.ID == FileID{now.Dev, now.Ino}
		masked = masked || m.Target == a+"/secret" && m.Placeholder && m.Dir == FileID{now.Dev, now.Ino} && m.ID == FileID{}
	}
	if host.swap != nil || !pinned || !masked {
		t.Errorf("exchanged %v, pinned %v, masked %v", host.swap == nil, pinned, masked)
	}
}

// If they are exchanged each time, nothing runs.
func TestDirectoriesExchangedAllTheTime(t *testing.T) {
	top := testTree(t)
	a, b := filepath.Join(top, "w/a"), filepath.Join(top, "w/b")
	host := &swapping{before: a + "/secret", swap: func() { exchange(t, a, b) }, always: true}
	_, err := Make(managed(t, "root=read "+top+"/w=write "+a+"/secret=deny"), permissions.Scope{}, host, false)
	var moved *inconsistent
	if !errors.As(err, &moved) {
		t.Errorf("got error %v, want errors.As(err, &moved)", err)
	}
}

// A walk looks names up in the directories that it has examined.
func TestWalkHoldsDirectories(t *testing.T) {
	top := testTree(t)
	a, b := filepath.Join(top, "w/a"), filepath.Join(top, "w/b")
	view, done := HostView{}.Walk()
	defer done()
	for at := range prefixes(a) {
		if info, err := view.Lstat(at); err != nil || info.Type != permissions.Dir {
			t.Fatal(at, info, err)
		}
	}
	exchange(t, a, b)
	if info, err := view.Lstat(a + "/secret"); err != nil || info.Type != permissions.Dir {
		t.Error(info, err)
	}
	if info, err := view.Lstat(a + "/other"); err != nil || info.Type != permissions.Missing {
		t.Error(info, err)
	}
	// Below a directory that is not kept open, no link is followed.
	if err := os.Symlink(a, filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	var moved *inconsistent
	if _, err := view.Lstat(filepath.Join(top, "link/other")); !errors.As(err, &moved) {
		t.Error(err)
	}
}

// TestBelowLinks: entries name paths deep below links, such as /var/run/lock/x, where
// /var/run leads to /run.
func TestBelowLinks(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(top+"/run/lock/d/e", 0o755), os.WriteFile(top+"/run/lock/d/x", []byte("x"), 0o644),
		os.Symlink("run", top+"/lb"), os.Symlink(top+"/lb/lock", top+"/lc"), os.Symlink("d", top+"/run/lock/ld")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ entry, target string }{
		{"/lb/lock=deny", "/run/lock"},
		{"/lb/lock/d=deny", "/run/lock/d"},
		{"/lb/lock/d/x=deny", "/run/lock/d/x"},
		{"/lb/lock/d/e=write", "/run/lock/d/e"},
		{"/lc/d/e=deny", "/run/lock/d/e"},
		{"/lc/d/x=deny", "/run/lock/d/x"},
		{"/lb/lock/ld/x=deny", "/run/lock/d/x"},
		{"/lc/ld=write", "/run/lock/d"},
		{"/lb/lock/d/none/x=deny", ""},
		{"/lb/lock/d/x/none=deny", ""},
	} {
		plan, err := Make(managed(t, "root=read "+top+tt.entry), permissions.Scope{}, HostView{}, false)
		if err != nil {
			t.Errorf("%s: got error %v, want no error", tt.entry, err)
			continue
		}
		if there := slices.ContainsFunc(plan.Mounts, func(m Mount) bool { return m.Target == top+tt.target && m.ID != (FileID{}) }); there != (tt.target != "") {
			t.Errorf("%s: got %+v, want there %v", tt.entry, plan.Mounts, tt.target != "")
		}
		if tt.target == "" && !slices.Contains(plan.Absent, top+strings.TrimSuffix(tt.entry, "=deny")) {
			t.Errorf("%s: absent are %q", tt.entry, plan.Absent)
		}
	}
}

// TestLinksBelowLinks: a view with an empty root has each link of a path that contains
// several, also if one is below another.
func TestLinksBelowLinks(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(top+"/disk/user/project", 0o755), os.Symlink("disk", top+"/home"), os.Symlink("project", top+"/disk/user/current"),
		os.WriteFile(top+"/disk/user/project/x", nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, entry := range []string{"/home/user/current=read", "/home/user/current/x=read", "/home/user/current=write"} {
		plan, err := Make(managed(t, top+entry), permissions.Scope{}, HostView{}, false)
		if err != nil {
			t.Errorf("%s: got error %v, want no error", entry, err)
			continue
		}
		for name, to := range map[string]string{"/home": "disk", "/disk/user/current": "project"} {
			if !slices.ContainsFunc(plan.Mounts, func(m Mount) bool { return m.Kind == Link && m.Target == top+name && m.Source == to }) {
				t.Errorf("%s: there is no link %s in %+v", entry, name, plan.Mounts)
			}
		}
	}
}
