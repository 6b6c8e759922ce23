package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// renameTree makes the tree for TestRename.
func renameTree(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.MkdirAll(dir+"/full/below", 0o755),
		os.Mkdir(dir+"/empty", 0o755),
		os.WriteFile(dir+"/a", []byte("a"), 0o644),
		os.WriteFile(dir+"/b", []byte("b"), 0o644),
		os.Link(dir+"/a", dir+"/a2"),
		os.Symlink("a", dir+"/to-a"),
		os.Symlink("nowhere", dir+"/dangling"),
		os.Symlink("full", dir+"/to-full"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRename(t *testing.T) {
	for _, tt := range []struct {
		name, source, destination string
		overwrite                 bool
		want                      error
		text                      string // D is the directory
	}{
		{"a file", "a", "new", false, nil, ""},
		{"a directory", "full", "new", false, nil, ""},
		{"a file through a linked directory", "a", "to-full/new", false, nil, ""},
		{"a link, not its target", "to-a", "new", false, nil, ""},
		{"a dangling link", "dangling", "new", false, nil, ""},
		{"onto a file", "a", "b", false, unix.EEXIST, "File exists (os error 17): D/b"},
		{"onto a dangling link", "a", "dangling", false, unix.EEXIST, "File exists (os error 17): D/dangling"},
		{"over a file", "a", "b", true, nil, ""},
		{"over a link, not its target", "b", "to-a", true, nil, ""},
		{"over an empty directory", "full", "empty", true, nil, ""},
		{"over a full directory", "empty", "full", true, unix.ENOTEMPTY, "D/full"},
		{"a file over a directory", "a", "empty", true, unix.EISDIR, "Is a directory (os error 21): D/empty"},
		{"a directory over a file", "empty", "a", true, unix.ENOTDIR, "Not a directory (os error 20): D/a"},
		{"a directory over a link to a directory", "empty", "to-full", true, unix.ENOTDIR, "D/to-full"},
		{"nothing", "no", "new", true, unix.ENOENT, "No such file or directory (os error 2): D/no"},
		{"to nowhere", "a", "no/new", true, unix.ENOENT, "No such file or directory (os error 2): D/no/new"},
		{"below a file", "a", "b/new", true, unix.ENOTDIR, "Not a directory (os error 20): D/b/new"},
		{"to itself", "a", "a", true, ErrSameFile, "`D/a` and `D/a` are the same file"},
		{"to itself by another way", "full/below", "to-full/below", false, ErrSameFile, "are the same file"},
		{"to another name of the file", "a", "a2", true, ErrSameFile, "`D/a` and `D/a2` are the same file"},
		{"into itself", "full", "full/below/new", false, ErrIntoItself, "a directory cannot be moved into itself: D/full"},
		{"into itself through a link", "full", "to-full/below/new", true, ErrIntoItself, "a directory cannot be moved into itself: D/full"},
		{"the root", "/", "new", true, ErrRoot, ErrRoot.text},
		{"over the root", "a", "/", true, ErrRoot, ErrRoot.text},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := renameTree(t)
			path := func(name string) string {
				if name == "/" {
					return name
				}
				return dir + "/" + name
			}
			before := names(t, dir)
			old, _ := os.Lstat(path(tt.source))
			err := Rename(path(tt.source), path(tt.destination), tt.overwrite)
			if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), strings.ReplaceAll(tt.text, "D/", dir+"/")) {
				t.Fatalf("%v, want %v: %s", err, tt.want, tt.text)
			}
			if err != nil {
				if after := names(t, dir); after != before {
					t.Errorf("the tree changed: %s, before %s", after, before)
				}
				return
			}
			if _, err := os.Lstat(path(tt.source)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the source is still there: %v", err)
			}
			if now, err := os.Lstat(path(tt.destination)); err != nil || !os.SameFile(old, now) {
				t.Errorf("the destination is not the source: %v", err)
			}
			if a, err := os.ReadFile(dir + "/a2"); string(a) != "a" || err != nil {
				t.Errorf("a file became %q, %v", a, err)
			}
		})
	}
}

// names lists a tree.
func names(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		all = append(all, name+" "+d.Type().String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}

// TestRenameWithoutOverwriteIsAtomic renames many files to one name at the same time. Exactly one
// rename succeeds, and no file is lost.
func TestRenameWithoutOverwriteIsAtomic(t *testing.T) {
	dir := t.TempDir()
	const files = 32
	var all sync.WaitGroup
	results := make([]error, files)
	for i := range files {
		name := dir + "/" + string(rune('A'+i))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		all.Go(func() { results[i] = Rename(name, dir+"/one", false) })
	}
	all.Wait()
	done := 0
	for _, err := range results {
		switch {
		case err == nil:
			done++
		case !errors.Is(err, unix.EEXIST):
			t.Error(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if done != 1 || len(entries) != files || err != nil {
		t.Errorf("%d were renamed, %d names are left, %v", done, len(entries), err)
	}
}

// TestRenameErrorsNameThePath checks errors of system calls that do not report which of the two
// paths failed.
func TestRenameErrorsNameThePath(t *testing.T) {
	dir := renameTree(t)
	id := fileID{}
	r := &renaming{from: -1, to: -1, source: "/src", destination: "/dst"}
	var err error
	if r.from, _, err = openParent(dir+"/a", Options{}); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(r.from)
	r.to = r.from
	for _, tt := range []struct {
		errno unix.Errno
		want  error
		text  string
	}{
		{unix.EXDEV, ErrOtherFileSystem, "copy with fs/copy, then remove the source with fs/remove"},
		{unix.EINVAL, ErrNoReplace, "rename with overwrite"},
		{unix.ENOSYS, ErrNoReplace, "rename with overwrite"},
		{unix.EBUSY, ErrBusy, "`/src` or `/dst` is a mount point"},
		{unix.EPERM, unix.EPERM, "Operation not permitted (os error 1): /src to /dst"},
		{unix.EDQUOT, unix.EDQUOT, ": /dst"},
		{unix.ENOENT, unix.ENOENT, ": /src"},
		{unix.EIO, unix.EIO, ": /src"},
	} {
		if err := r.failed(id, tt.errno); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%v: got error %v; want %v, an error with %q", tt.errno, err, tt.want, tt.text)
		}
	}
	r.overwrite = true
	if err := r.failed(id, unix.EINVAL); !errors.Is(err, unix.EINVAL) {
		t.Error(err)
	}
}
