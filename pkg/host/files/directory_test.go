package files

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestCreateDirectory(t *testing.T) {
	dir := planted(t, "d", "f=x", "l -> d", "dang -> none")
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, tt := range []struct {
		name      string
		recursive bool
		want      error
		at        string
	}{
		{"x", false, nil, ""},
		{"x", false, unix.EEXIST, "x"},
		{"x", true, nil, ""},
		{"a/b/c", false, unix.ENOENT, "a/b/c"},
		{"a/b/c", true, nil, ""},
		{"a/b/c", true, nil, ""},
		{"l/y", true, nil, ""},
		{"l", true, nil, ""},
		{"l", false, unix.EEXIST, "l"},
		{"f", true, unix.EEXIST, "f"},
		{"f", false, unix.EEXIST, "f"},
		{"f/x", true, unix.ENOTDIR, "f/x"},
		{"f/x/y", true, unix.ENOTDIR, "f/x/y"},
		{"dang", true, unix.EEXIST, "dang"},
		{"dang/x", true, unix.EEXIST, "dang"},
		{strings.Repeat("n", 300) + "/x", true, unix.ENAMETOOLONG, strings.Repeat("n", 300) + "/x"},
		{strings.Repeat("/n", 3000), true, unix.ENAMETOOLONG, strings.Repeat("/n", 3000)},
	} {
		err := CreateDirectory(in(tt.name), tt.recursive, Options{})
		if tt.want == nil {
			if err != nil {
				t.Errorf("%s, %v: got error %v, want no error", tt.name, tt.recursive, err)
			}
			continue
		}
		wantError(t, tt.name, err, tt.want, in(tt.at))
	}
	wantTree(t, dir, "d/", "d/y/", "f=x", "l -> d", "dang -> none", "x/", "a/", "a/b/", "a/b/c/")
	if err := CreateDirectory("/", true, Options{}); err != nil {
		t.Error(err)
	}
	wantError(t, "the root", CreateDirectory("/", false, Options{}), unix.EEXIST, "/")
}

func TestStat(t *testing.T) {
	dir := planted(t, "d", "f=12345", "l -> f", "ld -> d", "p|", "dang -> none", "old=")
	in := func(name string) string { return filepath.Join(dir, name) }
	when := time.UnixMilli(1_000_000_000_123)
	if err := os.Chtimes(in("f"), when, when); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(in("old"), time.Unix(-5, 0), time.Unix(-5, 0)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Metadata{
		"f":   {IsFile: true, Size: 5, ModifiedAtMS: when.UnixMilli()},
		"l":   {IsFile: true, IsSymlink: true, Size: 5, ModifiedAtMS: when.UnixMilli()},
		"d":   {IsDirectory: true},
		"ld":  {IsDirectory: true, IsSymlink: true},
		"p":   {},
		"old": {IsFile: true},
	} {
		got, err := Stat(in(name), Options{})
		if err != nil {
			t.Error(err)
			continue
		}
		if name != "f" && name != "l" && name != "old" {
			if age := time.Since(time.UnixMilli(got.ModifiedAtMS)); age < -time.Minute || age > time.Hour {
				t.Errorf("%s was modified %v ago", name, age)
			}
			got.ModifiedAtMS, got.Size = 0, 0
		}
		if age := time.Since(time.UnixMilli(got.CreatedAtMS)); got.CreatedAtMS != 0 && (age < -time.Minute || age > time.Hour) {
			t.Errorf("%s was created %v ago", name, age)
		}
		got.CreatedAtMS = 0
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	for name, want := range map[string]error{"dang": unix.ENOENT, "none": unix.ENOENT, "f/x": unix.ENOTDIR} {
		_, err := Stat(in(name), Options{})
		wantError(t, name, err, want, in(name))
	}
}

func TestCanonicalize(t *testing.T) {
	dir := planted(t, "d/s", "d/f=x", "l -> d", "ll -> l/s", "dang -> none", "loop -> loop", "gone (deleted)=x")
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, want := range map[string]string{"l/f": "d/f", "l": "d", "ll": "d/s", "d/f": "d/f", "gone (deleted)": "gone (deleted)"} {
		if got, err := Canonicalize(in(name)); err != nil || got != in(want) {
			t.Errorf("%s: %s, %v; want %s", name, got, err, in(want))
		}
	}
	if got, err := Canonicalize("/"); err != nil || got != "/" {
		t.Errorf("the root: %s, %v", got, err)
	}
	for name, want := range map[string]error{
		"dang": unix.ENOENT, "none": unix.ENOENT, "d/f/x": unix.ENOTDIR, "loop": unix.ELOOP,
	} {
		_, err := Canonicalize(in(name))
		wantError(t, name, err, want, in(name))
	}
}

func TestReadDirectory(t *testing.T) {
	dir := planted(t, "d/b", "d/a=x", "d/.h=x", "d/l -> b", "d/lf -> a", "d/dang -> none", "d/loop -> loop", "d/below -> a/x", "d/p|",
		"d/bad\xff=", "d/é=", "empty", "ld -> d")
	in := func(name string) string { return filepath.Join(dir, name) }
	want := []Entry{
		{Name: ".h", IsFile: true}, {Name: "a", IsFile: true}, {Name: "b", IsDirectory: true},
		{Name: "bad\ufffd", IsFile: true, IsLossy: true}, {Name: "l", IsDirectory: true}, {Name: "lf", IsFile: true},
		{Name: "p"}, {Name: "é", IsFile: true},
	}
	for _, name := range []string{"d", "ld"} {
		got, err := ReadDirectory(t.Context(), in(name), false)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %+v, %v\nwant %+v", name, got, err, want)
		}
	}
	if got, err := ReadDirectory(t.Context(), in("empty"), false); err != nil || got == nil || len(got) != 0 {
		t.Errorf("an empty one: %v, %v", got, err)
	}
	for name, want := range map[string]error{"d/a": unix.ENOTDIR, "none": unix.ENOENT} {
		_, err := ReadDirectory(t.Context(), in(name), false)
		wantError(t, name, err, want, in(name))
	}
}

func TestLossy(t *testing.T) {
	for in, want := range map[string]string{
		"é":                "é",
		"\xff":             "\ufffd",
		"a\xffb\xfe":       "a\ufffdb\ufffd",
		"\xe2\x82x":        "\ufffdx",
		"\xe2\x82":         "\ufffd",
		"\xf0\x9f\x98":     "\ufffd",
		"\xf0\x9f\x98\xff": "\ufffd\ufffd",
		"\xe2\xe2\x82\xac": "\ufffd€",
		"\x80\x80":         "\ufffd\ufffd",
		"\xc0\xaf":         "\ufffd\ufffd",
		"\xed\xa0\x80":     "\ufffd\ufffd\ufffd",
		"\ufffd":           "\ufffd",
	} {
		if got := lossy(in); got != want {
			t.Errorf("lossy(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestManyNames reads a directory that does not fit into one buffer, at the
// limit of names and one past it.
func TestManyNames(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	const n = 1500
	dir := planted(t)
	want := make([]string, n)
	for i := range want {
		want[i] = fmt.Sprintf("a-name-that-is-not-short-%05d", i)
		if err := os.WriteFile(filepath.Join(dir, want[i]), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list := func(limit int) ([]dirent, error) {
		fd, err := openDirAt(unix.AT_FDCWD, dir)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		return sortedNames(t.Context(), fd, limit)
	}
	names, err := list(n)
	if err != nil || len(names) != n {
		t.Fatal(len(names), err)
	}
	for i, e := range names {
		if e.name != want[i] || e.mode != unix.S_IFREG {
			t.Fatalf("name %d is %+v", i, e)
		}
	}
	if _, err := list(n - 1); err != ErrTooManyNames {
		t.Errorf("one name too many: %v", err)
	}
	if err := Remove(t.Context(), dir, RemoveOptions{Recursive: true}); err != nil {
		t.Errorf("remove in batches: %v", err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}

func BenchmarkStat(b *testing.B) {
	name := filepath.Join(planted(b, "f=x"), "f")
	for what, o := range map[string]Options{"follow": {}, "no follow": {NoFollow: true}} {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Stat(name, o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
