package files

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAttributes(t *testing.T) {
	dir := planted(t, "d/", "d/f=abc", "d/l -> f", "d/dangling -> nowhere", "d/p|", "d/sub/")
	if err := os.Chmod(dir+"/d/f", 0o4751); err != nil {
		t.Fatal(err)
	}
	list, err := ListAttributes(t.Context(), dir+"/d")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.Name+" "+e.Kind+" "+e.Target)
		one, err := GetAttributes(dir + "/d/" + e.Name)
		if err != nil || one != e.Attributes {
			t.Errorf("%s: %+v, %v; listed as %+v", e.Name, one, err, e.Attributes)
		}
		if e.Name == "f" && (e.Permissions != 0o751 || e.Size != 3 || e.ModifiedAtMS == 0) {
			t.Errorf("got %+v; want e.Permissions 0o751, e.Size 3, e.ModifiedAtMS other than 0", e)
		}
	}
	if text := strings.Join(got, ", "); text != "dangling symlink nowhere, f file , l symlink f, p other , sub directory " {
		t.Errorf("got %v, want %v", text, "dangling symlink nowhere, f file , l symlink f, p other , sub directory ")
	}
}

// TestListsHaveAttributesIfAsked: if requested, lists of directories and trees have the attributes
// of each name itself. Otherwise they have no attributes.
func TestListsHaveAttributesIfAsked(t *testing.T) {
	dir := planted(t, "d/", "d/f=abc", "d/l -> f", "d/dangling -> nowhere", "d/ld -> .", "d/p|", "d/sub/")
	for _, attributes := range []bool{false, true} {
		list, err := ReadDirectory(t.Context(), dir+"/d", attributes)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range list {
			line := e.Name
			if e.IsDirectory {
				line += "/"
			}
			if e.Attributes != nil {
				if one, err := GetAttributes(dir + "/d/" + e.Name); err != nil || one != *e.Attributes {
					t.Errorf("%s: %+v, %v; listed as %+v", e.Name, one, err, e.Attributes)
				}
				line += " " + e.Attributes.Kind + " " + e.Attributes.Target
			}
			got = append(got, line)
		}
		want := "f, l, ld/, p, sub/"
		if attributes {
			want = "dangling symlink nowhere, f file , l symlink f, ld/ symlink ., p other , sub/ directory "
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%q, want %q", text, want)
		}
		w, err := Walk(t.Context(), dir, WalkOptions{
			MaxDepth: 9, MaxDirectories: 9, MaxEntries: 99, FollowDirectorySymlinks: true, Attributes: attributes,
		})
		if err != nil || len(w.Errors) > 0 {
			t.Fatal(w.Errors, err)
		}
		got = nil
		for _, e := range w.Entries {
			line := strings.TrimPrefix(e.Path, dir+"/")
			if e.Attributes != nil {
				line += " " + e.Attributes.Kind
			}
			got = append(got, line)
		}
		want = "d, d/f, d/ld, d/sub"
		if attributes {
			want = "d directory, d/f file, d/ld symlink, d/sub directory"
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%q, want %q", text, want)
		}
	}
}

// TestListsNamesWithoutAttributes lists a directory that the user may list but not enter.
func TestListsNamesWithoutAttributes(t *testing.T) {
	dir := planted(t, "d/", "d/f=abc", "d/l -> f", "d/sub/")
	give(t, dir)
	if err := os.Chmod(dir+"/d", 0o444); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		list, err := ReadDirectory(t.Context(), dir+"/d", true)
		if err != nil || len(list) != 3 || !list[0].IsFile || !list[2].IsDirectory || list[0].Attributes != nil {
			t.Errorf("ReadDirectory: %+v, %v", list, err)
		}
		named, err := ListAttributes(t.Context(), dir+"/d")
		if err != nil || len(named) != 3 || named[0].Kind != KindFile || named[1].Kind != KindSymlink || named[2].Kind != KindDirectory {
			t.Errorf("ListAttributes: %+v, %v", named, err)
		}
	})
	if err := os.Chmod(dir+"/d", 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestMountPoints(t *testing.T) {
	for name, want := range map[string]bool{"/": true, "/proc": true, t.TempDir(): false} {
		if a, err := GetAttributes(name); err != nil || a.MountPoint != want {
			t.Errorf("%s: got mount point %v, %v; want %v", name, a.MountPoint, err, want)
		}
	}
}

// TestSetsFarTimes sets a time that nanoseconds since 1970 cannot express in 64 bits.
func TestSetsFarTimes(t *testing.T) {
	dir := planted(t, "f=")
	far := time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	if err := SetAttributes(dir+"/f", Changes{ModifiedAtMS: &far}, Options{}); err != nil {
		t.Fatal(err)
	}
	if a, err := GetAttributes(dir + "/f"); err != nil || a.ModifiedAtMS != far {
		t.Errorf("got %d, %v; want %d", a.ModifiedAtMS, err, far)
	}
}

func TestSetAttributes(t *testing.T) {
	dir := planted(t, "d/", "d/f=abc", "l -> d/f", "ld -> d", "p|")
	when := int64(1_000_000_000_123)
	for _, name := range []string{"/d/f", "/d", "/ld/f"} {
		if err := SetAttributes(dir+name, Changes{Permissions: new(uint32(0o700)), ModifiedAtMS: &when}, Options{}); err != nil {
			t.Error(err)
		}
		wantMode(t, dir+name, 0o700)
		if st, err := os.Stat(dir + name); err != nil || st.ModTime().UnixMilli() != when {
			t.Errorf("%s: got st %v, error %v; want no error, st.ModTime().UnixMilli() %v", name, st, err, when)
		}
	}
	if err := SetAttributes(dir+"/d/f", Changes{Permissions: new(uint32(0))}, Options{}); err != nil {
		t.Error(err)
	}
	if st, err := os.Stat(dir + "/d/f"); err != nil || !st.ModTime().Equal(time.UnixMilli(when)) || st.Mode() != 0 {
		t.Errorf("got st %v, error %v; want no error, st.ModTime().Equal(time.UnixMilli(when)), st.Mode() 0", st, err)
	}
	perms := Changes{Permissions: new(uint32(0o644))}
	wantError(t, "a link", SetAttributes(dir+"/l", perms, Options{}), ErrSymlink, dir+"/l")
	no := Options{NoFollow: true}
	wantError(t, "a link on the way", SetAttributes(dir+"/ld/f", perms, no), ErrSymlink, "")
	wantError(t, "a link for a link on the way", Symlink("x", dir+"/ld/new", false, no), ErrSymlink, "")
	_, err := OpenWrite(dir+"/ld/f", WriteOptions{Options: no, Atomic: true})
	wantError(t, "a file for a link on the way", err, ErrSymlink, "")
	wantError(t, "a pipe", SetAttributes(dir+"/p", perms, Options{}), ErrNotFile, dir+"/p")
	wantError(t, "nothing", SetAttributes(dir+"/no", perms, Options{}), unix.ENOENT, dir+"/no")
	wantError(t, "set-id", SetAttributes(dir+"/d/f", Changes{Permissions: new(uint32(0o4755))}, Options{}), ErrPermissions, "")
	wantMode(t, dir+"/d/f", 0)
}

func TestSymlink(t *testing.T) {
	dir := planted(t, "f=abc", "old -> f", "d/")
	for name, target := range map[string]string{"/new": "/nowhere", "/d/up": "../f"} {
		if err := Symlink(target, dir+name, false, Options{}); err != nil {
			t.Error(err)
		}
	}
	wantError(t, "a link", Symlink("x", dir+"/old", false, Options{}), unix.EEXIST, dir+"/old")
	for _, name := range []string{"/f", "/d"} {
		wantError(t, name, Symlink("x", dir+name, true, Options{}), unix.EEXIST, dir+name)
	}
	if err := Symlink("x", dir+"/old", true, Options{}); err != nil {
		t.Error(err)
	}
	wantTree(t, dir, "f=abc", "old -> x", "d/", "d/up -> ../f", "new -> /nowhere")
}

// TestNewFilesHaveTheirPermissionsAtOnce: other users can never read a secret, not even while it is
// written.
func TestNewFilesHaveTheirPermissionsAtOnce(t *testing.T) {
	dir := planted(t, "old=abc")
	wantMode(t, dir+"/old", 0o666&^currentMask())
	h, err := OpenWrite(dir+"/new", WriteOptions{Atomic: true, Permissions: new(uint32(0o600))})
	if err != nil {
		t.Fatal(err)
	}
	wantMode(t, dir+"/"+h.temp, 0o600)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	wantMode(t, dir+"/new", 0o600)
	// An existing file keeps its permissions.
	h, err = OpenWrite(dir+"/old", WriteOptions{Atomic: true, Permissions: new(uint32(0o600))})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	wantMode(t, dir+"/old", 0o666&^currentMask())
	for _, no := range []bool{false, true} {
		name := dir + "/a/b"
		if err := CreateDirectoryWith(name, 0o700, true, Options{NoFollow: no}); err != nil {
			t.Fatal(err)
		}
		wantMode(t, name, 0o700)
		wantMode(t, dir+"/a", 0o777&^currentMask())
		if err := os.RemoveAll(dir + "/a"); err != nil {
			t.Fatal(err)
		}
	}
	_, err = OpenWrite(dir+"/new", WriteOptions{Permissions: new(uint32(0o4700))})
	wantError(t, "set-id", err, ErrPermissions, "")
	wantError(t, "a set-id directory", CreateDirectoryWith(dir+"/x", 0o4700, true, Options{}), ErrPermissions, "")
}

// currentMask returns the umask, which can only be read by setting it.
func currentMask() uint32 {
	mask := unix.Umask(0o022)
	unix.Umask(mask)
	return uint32(mask)
}
