package home

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// elsewhere is a directory for temporary files that contains no home of a test.
const elsewhere = "/nonexistent"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func listing(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestAliases(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	root := filepath.Join(home, aliasRoot)
	must(t, os.MkdirAll(root, 0o755))
	a, err := MakeAliases(home, elsewhere, "/usr/bin/codex", []string{"codex-fs", "codex-linux-sandbox"})
	must(t, err)
	if st, err := os.Stat(root); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the mode of %s: %v, %v", root, st.Mode(), err)
	}
	if name := filepath.Base(a.dir); !strings.HasPrefix(name, "codex-arg0") || len(name) != len("codex-arg0XXXXXX") {
		t.Errorf("the directory is called %s", name)
	}
	if got := listing(t, a.dir); !slices.Equal(got, []string{".lock", "codex-fs", "codex-linux-sandbox"}) {
		t.Errorf("it holds %q", got)
	}
	if to, err := os.Readlink(filepath.Join(a.dir, "codex-fs")); to != "/usr/bin/codex" {
		t.Errorf("codex-fs leads to %q: %v", to, err)
	}
	if got, want := a.Path("/bin:/usr/bin"), a.dir+":/bin:/usr/bin"; got != want {
		t.Errorf("PATH is %q, want %q", got, want)
	}
	if got := a.Path(""); got != a.dir {
		t.Errorf("PATH is %q without an old one", got)
	}
	other, err := os.Open(filepath.Join(a.dir, lockName))
	must(t, err)
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("the lock is free: %v", err)
	}
	must(t, a.Close())
	if got := listing(t, root); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

func TestJanitor(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	root := filepath.Join(home, aliasRoot)
	make := func(name string, lock bool) string {
		dir := filepath.Join(root, name)
		must(t, os.MkdirAll(dir, 0o700))
		must(t, os.Symlink("/nonexistent", filepath.Join(dir, "codex-fs")))
		if lock {
			must(t, os.WriteFile(filepath.Join(dir, lockName), nil, 0o600))
		}
		return dir
	}
	make("codex-arg0stale1", true)
	make("codex-arg0stale2", true)
	make("codex-arg0nolock", false)
	held, err := os.Open(filepath.Join(make("codex-arg0inuse", true), lockName))
	must(t, err)
	defer held.Close()
	must(t, unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	away := filepath.Join(t.TempDir(), "away")
	must(t, os.Mkdir(away, 0o700))
	must(t, os.WriteFile(filepath.Join(away, lockName), nil, 0o600))
	must(t, os.Symlink(away, filepath.Join(root, "codex-arg0link")))

	a, err := MakeAliases(home, elsewhere, "/codex", nil)
	must(t, err)
	a.CleanUp(func(err error) { t.Errorf("a warning: %v", err) })
	a.janitor.Wait()
	if got, want := listing(t, root), []string{"codex-arg0inuse", "codex-arg0link", "codex-arg0nolock", filepath.Base(a.dir)}; !slices.Equal(slices.Sorted(slices.Values(want)), got) {
		t.Errorf("%q is left, want %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(away, lockName)); err != nil {
		t.Errorf("it went through a link: %v", err)
	}
	must(t, a.Close())
}

func TestJanitorWarns(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	// Even root cannot open a lock file that is a link.
	dir := filepath.Join(home, aliasRoot, "codex-arg0broken")
	must(t, os.MkdirAll(dir, 0o700))
	must(t, os.Symlink("/dev/null", filepath.Join(dir, lockName)))
	var warning error
	a, err := MakeAliases(home, elsewhere, "/codex", nil)
	must(t, err)
	a.CleanUp(func(err error) { warning = err })
	a.janitor.Wait()
	must(t, a.Close())
	if warning == nil || !strings.HasPrefix(warning.Error(), "failed to clean up stale arg0 temp dirs: ") {
		t.Errorf("the warning is %v", warning)
	}
}

func TestAliasesAreRefusedWhereAnybodyCouldPutThem(t *testing.T) {
	for _, tt := range []struct {
		home, temp string
		refused    bool
	}{
		{"/tmp/home", "/tmp", true},
		{"/tmp", "/tmp/", true},
		{"/tmp/a/../home", "/tmp", true},
		{"/x", "/", true},
		{"/tmpfiles/home", "/tmp", false},
		{"/home/tmp", "/tmp", false},
	} {
		if got := isBelow(tt.home, tt.temp); got != tt.refused {
			t.Errorf("%s below %s: %v", tt.home, tt.temp, got)
		}
	}
	home := t.TempDir()
	_, err := MakeAliases(home, filepath.Dir(home), "/codex", nil)
	if err == nil || !strings.HasPrefix(err.Error(), "Refusing to create helper binaries under temporary dir \"") {
		t.Errorf("got %v", err)
	}
	if got := listing(t, home); len(got) != 0 {
		t.Errorf("made %q", got)
	}
}

func TestFailedAliasesLeaveNothing(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	if _, err := MakeAliases(home, elsewhere, "/codex", []string{"a", "a"}); err == nil {
		t.Fatal("one name twice was taken")
	}
	if got := listing(t, filepath.Join(home, aliasRoot)); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

func TestPackagePath(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "codex-path"), 0o755))
	if got, want := packagePath(filepath.Join(dir, "bin", "codex")), filepath.Join(dir, "codex-path"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, self := range []string{filepath.Join(dir, "sbin", "codex"), filepath.Join(dir, "x", "bin", "codex")} {
		if got := packagePath(self); got != "" {
			t.Errorf("%s: got %q", self, got)
		}
	}
}
