package placeholders

import (
	"errors"
	"os"
	"testing"

	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// TestUndoOpensWhatThePlanSaw: if another process, after the plan was made,
// replaces the directory of a name by another directory or by a link, or
// creates the name, the plan is refused. Otherwise the launcher would watch,
// and remove files from, a directory that the command cannot even reach.
func TestUndoOpensWhatThePlanSaw(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	for _, tt := range []struct {
		name   string
		change func(dir string) error
		errs   bool
	}{
		{"nothing", func(string) error { return nil }, false},
		{"another directory", func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".moved"), os.Mkdir(dir, 0o755))
		}, true},
		{"a link to another directory", func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".moved"), os.Mkdir(dir+".other", 0o755), os.Symlink(dir+".other", dir))
		}, true},
		{"a link to the directory", func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".moved"), os.Symlink(dir+".moved", dir))
		}, true},
		{"a file", func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".moved"), os.WriteFile(dir, nil, 0o644))
		}, true},
		{"no directory", os.Remove, true},
		{"the name", func(dir string) error { return os.Mkdir(dir+"/.git", 0o755) }, true},
	} {
		dir := t.TempDir() + "/ws"
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		var seen unix.Stat_t
		if err := errors.Join(unix.Stat(dir, &seen), tt.change(dir)); err != nil {
			t.Fatal(err)
		}
		u, err := OpenUndo([]plan.UndoName{{Path: dir + "/.git", Dev: uint64(seen.Dev), Ino: seen.Ino}})
		if errors.Is(err, plan.ErrAppeared) != tt.errs || !tt.errs && err != nil {
			t.Errorf("%s: got error %v; want errors.Is(err, plan.ErrAppeared) %v, no error", tt.name, err, tt.errs)
		}
		if u != nil {
			u.Close()
		}
	}
}
