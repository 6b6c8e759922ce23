package placeholders

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// takeEnv makes this program take and release the placeholder at that path.
const takeEnv = "SANDBOX_TEST_TAKE"

func TestMain(m *testing.M) {
	if name := os.Getenv(takeEnv); name != "" {
		for range 200 {
			if err := takeAndCheck(name); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// takeAndCheck takes a placeholder, and checks that it exists while it is held.
func takeAndCheck(name string) error {
	s, err := takePlaceholder(name, true, plan.FileID{})
	if err != nil {
		return err
	}
	if s == nil {
		return errors.New("what is there was taken for something of the user")
	}
	var held, there unix.Stat_t
	if err := errors.Join(unix.Fstat(s.fd, &held), unix.Lstat(name, &there)); err != nil {
		return fmt.Errorf("a placeholder that is held is gone: %w", err)
	}
	if held.Ino != there.Ino {
		return errors.New("two placeholders are held for one path")
	}
	s.Release()
	return nil
}

func take(t *testing.T, name string, dir bool) *Placeholder {
	t.Helper()
	s, err := takePlaceholder(name, dir, plan.FileID{})
	if err != nil || s == nil {
		t.Fatalf("got s %v, error %v; want no error, s that is not nil", s, err)
	}
	return s
}

func TestPlaceholdersAreSharedAndTheLastRemovesThem(t *testing.T) {
	for _, dir := range []bool{true, false} {
		name := filepath.Join(t.TempDir(), ".git")
		a := take(t, name, dir)
		b := take(t, name, dir)
		// A sandbox that joins uses the existing one.
		c := take(t, name, !dir)
		if c.IsDir() != dir {
			t.Errorf("a placeholder changed its kind")
		}
		a.Release()
		sweepPlaceholder(name)
		c.Release()
		if info, err := os.Lstat(name); err != nil || info.IsDir() != dir {
			t.Fatalf("got info %v, error %v; want no error, info.IsDir() %v", info, err, dir)
		}
		b.Release()
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("dir %v: it is left: %v", dir, err)
		}
	}
}

func TestNothingElseIsTakenForAPlaceholder(t *testing.T) {
	dir := t.TempDir()
	for name, make := range map[string]func(string) error{
		"file":        func(p string) error { return os.WriteFile(p, nil, 0o444) },
		"full":        func(p string) error { return os.WriteFile(p, []byte("x"), 0o444) },
		"directory":   func(p string) error { return os.Mkdir(p, 0o555) },
		"link":        func(p string) error { return os.Symlink("nowhere", p) },
		"fifo":        func(p string) error { return unix.Mkfifo(p, 0o444) },
		"marked file": func(p string) error { return errors.Join(os.WriteFile(p, []byte("x"), 0o444), mark(p)) },
		"marked mode": func(p string) error { return errors.Join(os.Mkdir(p, 0o755), mark(p)) },
	} {
		at := filepath.Join(dir, name)
		if err := make(at); err != nil {
			t.Fatal(err)
		}
		if s, err := takePlaceholder(at, true, plan.FileID{}); s != nil || err != nil {
			t.Errorf("%s: got s %v, error %v; want s nil, no error", name, s, err)
		}
		sweepPlaceholder(at)
		if _, err := os.Lstat(at); err != nil {
			t.Errorf("%s: got error %v, want no error", name, err)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 7 {
		t.Errorf("%d entries", len(entries))
	}
}

func mark(name string) error {
	times := []unix.Timespec{{Sec: plan.PlaceholderSeconds}, {Sec: plan.PlaceholderSeconds, Nsec: plan.PlaceholderNanoseconds}}
	return unix.UtimesNanoAt(unix.AT_FDCWD, name, times, 0)
}

func TestReleaseNeverRemovesWhatTookThePlaceholdersName(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, ".git")
	// Another file is at the path.
	s := take(t, name, true)
	if err := errors.Join(os.Remove(name), os.Mkdir(name, 0o555)); err != nil {
		t.Fatal(err)
	}
	s.Release()
	if _, err := os.Lstat(name); err != nil {
		t.Errorf("the user's folder was removed: %v", err)
	}
	_ = os.Remove(name)
	// The user has created a file in it.
	s = take(t, name, true)
	if err := errors.Join(os.Chmod(name, 0o755), os.WriteFile(filepath.Join(name, "HEAD"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	s.Release()
	if _, err := os.Lstat(filepath.Join(name, "HEAD")); err != nil {
		t.Errorf("the user's file was removed: %v", err)
	}
	// The placeholder was moved.
	file := filepath.Join(dir, "f")
	s = take(t, file, false)
	if err := os.Rename(file, file+"2"); err != nil {
		t.Fatal(err)
	}
	s.Release()
	if _, err := os.Lstat(file + "2"); err != nil {
		t.Errorf("got error %v, want no error", err)
	}
}

// A killed sandbox leaves a placeholder, which the next one takes over.
func TestPlaceholdersThatAreLeftAreTakenOver(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".git")
	abandon := func() {
		s := take(t, name, true)
		s.close() // as the end of a process does
	}
	abandon()
	sweepPlaceholder(name)
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("not swept: %v", err)
	}
	abandon()
	take(t, name, true).Release()
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("not taken over: %v", err)
	}
	sweepPlaceholder(name)
	sweepPlaceholder(filepath.Join(name, "missing", "x"))
}

func TestPlaceholdersInFoldersOfOthers(t *testing.T) {
	if _, err := takePlaceholder(filepath.Join(t.TempDir(), "missing", "x"), true, plan.FileID{}); err == nil {
		t.Error("a placeholder in a folder that is missing")
	}
	link := filepath.Join(t.TempDir(), "l")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if _, err := takePlaceholder(filepath.Join(link, "x"), true, plan.FileID{}); err == nil {
		t.Error("a placeholder behind a link")
	}
	if os.Geteuid() != 0 {
		if _, err := takePlaceholder("/codex-placeholder", true, plan.FileID{}); !errors.Is(err, ErrNotNeeded) {
			t.Errorf("in a folder of root's: %v", err)
		}
	}
	if _, err := takePlaceholder(filepath.Join(t.TempDir(), "x"), true, plan.FileID{Dev: 1, Ino: 1}); !errors.Is(err, plan.ErrAppeared) {
		t.Errorf("in another directory than the plan saw: got error %v, want %v", err, plan.ErrAppeared)
	}
	own := t.TempDir()
	if err := os.Chmod(own, 0o500); err != nil {
		t.Fatal(err)
	}
	if s, err := takePlaceholder(filepath.Join(own, "x"), true, plan.FileID{}); os.Geteuid() != 0 && (err == nil || errors.Is(err, ErrNotNeeded)) {
		t.Errorf("in a folder that its owner can open again: %v %v", s, err)
	} else if s != nil {
		s.Release()
	}
}

func TestManyTakeOnePlaceholder(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".git")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), takeEnv+"="+name)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("got error %v, out %s; want no error", err, out)
			}
		})
	}
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if err := takeAndCheck(name); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if entries, err := os.ReadDir(filepath.Dir(name)); err != nil || len(entries) != 0 {
		t.Errorf("%v are left: %v", entries, err)
	}
}

// takePlaceholder is Open and Hold for a path that must not be created.
func takePlaceholder(name string, dir bool, in plan.FileID) (*Placeholder, error) {
	s, err := openPlaceholder(name, in)
	if err != nil {
		return nil, err
	}
	s.dir = dir
	return s.take()
}

// joinPlaceholder is Open and Hold for a masked path.
func joinPlaceholder(name string, in plan.FileID) (*Placeholder, error) {
	m := &plan.Mount{Target: name, Dir: in}
	s, err := Open(m)
	if s == nil {
		return nil, err
	}
	return s.Hold(m, func(int) error { return nil })
}

// sweepPlaceholder removes the placeholder at a path if no process holds it, because
// all processes of its sandbox were killed. It does not touch any other file.
func sweepPlaceholder(name string) {
	s, err := openPlaceholder(name, plan.FileID{})
	if err != nil {
		return
	}
	if s.join() == nil {
		s.Release()
		return
	}
	s.close()
}
