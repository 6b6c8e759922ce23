package files

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRemove(t *testing.T) {
	force := RemoveOptions{Recursive: true, Force: true}
	careful := RemoveOptions{}
	noFollow := RemoveOptions{Options: Options{NoFollow: true}}
	link := RemoveOptions{Options: Options{NoFollow: true}, Link: true}
	tree := []string{"d", "d/f=x", "d/l -> f", "d/s", "d/s/g=y", "e", "f=x", "l -> f", "ld -> d", "dang -> none", "p|"}
	for _, tt := range []struct {
		name, path string
		o          RemoveOptions
		gone       []string
		want       error
	}{
		{"a file", "f", careful, []string{"f=x"}, nil},
		{"a link, not its target", "l", careful, []string{"l -> f"}, nil},
		{"a link that is not followed", "l", noFollow, nil, ErrSymlink},
		{"a link itself, and none on the way", "l", link, []string{"l -> f"}, nil},
		{"a link behind a link", "ld/l", link, nil, ErrSymlink},
		{"a file behind a link", "ld/f", link, nil, ErrSymlink},
		{"a link to a directory, not its target", "ld", force, []string{"ld -> d"}, nil},
		{"a link that leads nowhere", "dang", careful, []string{"dang -> none"}, nil},
		{"a pipe", "p", careful, []string{"p|"}, nil},
		{"an empty directory", "e", careful, []string{"e/"}, nil},
		{"a full directory", "d", force, []string{"d/", "d/f=x", "d/l -> f", "d/s/", "d/s/g=y"}, nil},
		{"a full directory without recursive", "d", RemoveOptions{Force: true}, nil, unix.ENOTEMPTY},
		{"through a link", "ld/s", force, []string{"d/s/", "d/s/g=y"}, nil},
		{"what is missing", "none", careful, nil, unix.ENOENT},
		{"what is missing, by force", "none", force, nil, nil},
		{"what is missing in what is missing, by force", "none/x", force, nil, nil},
		{"below a file, even by force", "f/x", force, nil, unix.ENOTDIR},
	} {
		dir := planted(t, tree...)
		var want []string
		gone := map[string]bool{}
		for _, line := range tt.gone {
			gone[line] = true
		}
		for _, line := range snapshot(t, dir) {
			if !gone[line] {
				want = append(want, line)
			}
		}
		err := Remove(t.Context(), filepath.Join(dir, tt.path), tt.o)
		if tt.want == nil && err != nil {
			t.Errorf("%s: got error %v, want no error", tt.name, err)
		}
		if tt.want != nil {
			wantError(t, tt.name, err, tt.want, filepath.Join(dir, tt.path))
		}
		wantTree(t, dir, want...)
	}
	if err := Remove(t.Context(), "/", RemoveOptions{}); err != ErrRoot {
		t.Errorf("the root: %v", err)
	}
}

func TestRemoveNamesWhatItCannotRemove(t *testing.T) {
	dir := planted(t, "d", "d/ro", "d/ro/f=x")
	if err := os.Chmod(filepath.Join(dir, "d/ro"), 0o555); err != nil {
		t.Fatal(err)
	}
	give(t, dir)
	asNobody(t, func() {
		err := Remove(t.Context(), filepath.Join(dir, "d"), RemoveOptions{Recursive: true, Force: true})
		wantError(t, "remove", err, unix.EACCES, filepath.Join(dir, "d/ro/f"))
		if Classify(err) != Invalid {
			t.Errorf("%v is %d", err, Classify(err))
		}
	})
	wantTree(t, dir, "d/", "d/ro/", "d/ro/f=x")
	if err := os.Chmod(filepath.Join(dir, "d/ro"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// at is a cursor at a directory. It is closed when the test ends.
func at(t *testing.T, dir string) *cursor {
	t.Helper()
	fd, err := openDirAt(unix.AT_FDCWD, dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCursor(dir, fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// TestRemoveTrustsNoType passes wrong types of the names to removeEntry. It must remove the actual
// files, and follow no link.
func TestRemoveTrustsNoType(t *testing.T) {
	outside, check := guarded(t)
	dir := planted(t, "file=x", "full", "full/x=", "empty", "link -> "+outside, "left=x")
	c := at(t, dir)
	for _, e := range []dirent{
		{"file", unix.S_IFDIR}, {"link", unix.S_IFDIR}, {"empty", unix.S_IFREG}, {"gone", unix.S_IFDIR}, {"gone", unix.S_IFREG},
	} {
		if entered, err := removeEntry(c, e); entered || err != nil {
			t.Errorf("%+v: got entered %v, error %v; want entered false, no error", e, entered, err)
		}
	}
	if entered, err := removeEntry(c, dirent{"full", unix.S_IFLNK}); !entered || err != nil || c.depth() != 1 {
		t.Errorf("a directory that was a link: %v, %v", entered, err)
	}
	wantTree(t, dir, "full/", "full/x=", "left=x")
	check()
}

// TestCursorIsNotLedAway exchanges the directory that a cursor is in or is about to enter.
func TestCursorIsNotLedAway(t *testing.T) {
	outside, check := guarded(t)
	dir := planted(t, "top", "top/l -> "+outside)
	c := at(t, filepath.Join(dir, "top"))
	wantError(t, "a link", c.enter("l"), unix.ENOTDIR, filepath.Join(dir, "top/l"))

	// Not deep: the cursor holds the parent's descriptor, so moving the child away changes nothing.
	plant(t, dir, "top/a/b")
	for _, name := range []string{"a", "b"} {
		if err := c.enter(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(filepath.Join(dir, "top/a/b"), filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
	name, left, err := c.leave()
	if err != nil || name != "b" || c.here() != filepath.Join(dir, "top/a") {
		t.Fatalf("%s, now at %s, %v", name, c.here(), err)
	}
	_ = unix.Close(left)
	var st unix.Stat_t
	if err := unix.Fstat(c.fd, &st); err != nil || idOf(&st) != c.id {
		t.Errorf("the cursor is elsewhere, %v", err)
	}

	// Deep: the cursor checks the directory to which ".." leads.
	path := filepath.Join(dir, "top/a")
	for range heldParents + 3 {
		path = filepath.Join(path, "x")
		plant(t, "/", path)
		if err := c.enter("x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(filepath.Join(dir, "top/a/x/x"), filepath.Join(outside, "d/x")); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil && c.depth() > 0; {
		if _, left, err = c.leave(); err == nil {
			_ = unix.Close(left)
		}
	}
	if !errors.Is(err, ErrMoved) || Classify(err) != Invalid {
		t.Errorf("left a moved directory: %v, now at %s", err, c.here())
	}
	if err := os.RemoveAll(filepath.Join(outside, "d/x")); err != nil {
		t.Fatal(err)
	}
	check()
}

// TestRemoveWhileLinksAppear removes trees in which directories and links to outside directories
// are constantly exchanged.
func TestRemoveWhileLinksAppear(t *testing.T) {
	outside, check := guarded(t)
	for range 30 {
		dir := planted(t, "t", "t/a", "t/a/x=", "t/a/y=", "t/b -> "+outside)
		a, b := filepath.Join(dir, "t/a"), filepath.Join(dir, "t/b")
		done, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-done:
					return
				default:
					_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
				}
			}
		}()
		err := Remove(t.Context(), filepath.Join(dir, "t"), RemoveOptions{Recursive: true, Force: true})
		close(done)
		<-stopped
		// Remove may lose the race, but then it must return an error.
		if err != nil && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.ENOTEMPTY) {
			t.Errorf("got error %v, want %v", err, unix.ENOTEMPTY)
		}
		if err == nil {
			wantTree(t, dir)
		}
		check()
	}
}
