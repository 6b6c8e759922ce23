package plan

import (
	"errors"
	"os"
	"slices"
	"testing"

	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// exchanging is the host, but a function is called before each access to a file
// or directory while a plan is made.
type exchanging struct {
	HostView
	before func()
}

func (x exchanging) Walk() (permissions.View, func()) {
	w, done := x.HostView.Walk()
	return exchangingWalk{w, x.before}, done
}

type exchangingWalk struct {
	permissions.View
	before func()
}

func (x exchangingWalk) Lstat(name string) (permissions.Info, error) {
	x.before()
	return x.View.Lstat(name)
}

func (x exchangingWalk) ReadDir(name string, each func(string, permissions.FileType) error) error {
	x.before()
	return x.View.ReadDir(name, each)
}

// TestMatchesInExchangedDirectories: a pattern denies a file, and another process,
// perhaps confined by the same policy, exchanges two directories above it while
// the plan is made, once or twice. The mask must be at the final path of the
// match.
func TestMatchesInExchangedDirectories(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(dir+"/a", 0o700), os.Mkdir(dir+"/b", 0o700), os.WriteFile(dir+"/b/x.key", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	exchange := func() {
		err := unix.Renameat2(unix.AT_FDCWD, dir+"/a", unix.AT_FDCWD, dir+"/b", unix.RENAME_EXCHANGE)
		testutil.Need(t, "file system that exchanges directories", err, unix.EINVAL, unix.ENOSYS)
	}
	profile := managed(t, "root=read "+dir+"=write glob:"+dir+"/**/*.key=deny")
	looks, at, back := 0, -1, -1
	host := exchanging{before: func() {
		if looks == at || looks == back {
			exchange()
		}
		looks++
	}}
	if _, err := Make(profile, permissions.Scope{}, host, false); err != nil {
		t.Fatal(err)
	}
	quiet := looks
	for at = range quiet {
		for _, back = range []int{-1, at + 1, at + 2, at + 4} {
			looks = 0
			plan, err := Make(profile, permissions.Scope{}, host, false)
			if err != nil {
				t.Errorf("exchanged at look %d and %d: %v", at, back, err)
				continue
			}
			name := dir + "/a/x.key"
			if _, err := os.Stat(name); err != nil {
				name = dir + "/b/x.key"
			}
			if !slices.ContainsFunc(plan.Mounts, func(m Mount) bool { return m.Target == name && m.Kind == EmptyFile }) {
				t.Errorf("exchanged at look %d and %d: %s has no mask", at, back, name)
			}
		}
	}
}
