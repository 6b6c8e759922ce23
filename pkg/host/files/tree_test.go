package files

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// randomTree generates a tree of about n names, in the notation of plant, with
// every directory before its contents. Links lead to siblings, upwards, to
// missing names, and to the outside.
func randomTree(r *rand.Rand, n int, outside string) []string {
	dirs := []string{""}
	taken := map[string]bool{}
	var lines []string
	for range n {
		name := path.Join(dirs[r.IntN(len(dirs))], fmt.Sprintf("%c%d", "abc.-"[r.IntN(5)], r.IntN(8)))
		if taken[name] {
			continue
		}
		taken[name] = true
		switch r.IntN(8) {
		case 0, 1, 2:
			dirs = append(dirs, name)
			lines = append(lines, name)
		case 3, 4:
			lines = append(lines, fmt.Sprintf("%s=text %d", name, r.IntN(100)))
		case 5:
			targets := []string{"a1", "..", "../..", "none/x", outside, path.Base(name)}
			lines = append(lines, name+" -> "+targets[r.IntN(len(targets))])
		case 6:
			lines = append(lines, name+" -> "+filepath.Join(outside, "d"))
		default:
			lines = append(lines, fmt.Sprintf("%s=", name))
		}
	}
	return lines
}

// guarded returns a directory that must not change, for links to point to.
func guarded(t testing.TB) (dir string, check func()) {
	t.Helper()
	dir = planted(t, "d/e", "d/f=safe", "f=safe")
	before := snapshot(t, dir)
	return dir, func() {
		t.Helper()
		wantTree(t, dir, before...)
	}
}

func TestRandomTreesAreRemoved(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	outside, check := guarded(t)
	for seed := range testutil.Rounds[uint64](5, 10, 30) {
		r := rand.New(rand.NewPCG(seed, 1))
		dir := planted(t, "beside=x", "t")
		plant(t, filepath.Join(dir, "t"), randomTree(r, 5+r.IntN(80), outside)...)
		o := RemoveOptions{Recursive: true, Options: Options{NoFollow: seed%2 == 0}}
		if err := Remove(t.Context(), filepath.Join(dir, "t"), o); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		wantTree(t, dir, "beside=x")
		check()
	}
}

func TestRandomTreesAreCopied(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	outside, check := guarded(t)
	for seed := range testutil.Rounds[uint64](5, 10, 30) {
		r := rand.New(rand.NewPCG(seed, 2))
		dir := planted(t, "from")
		plant(t, filepath.Join(dir, "from"), randomTree(r, 5+r.IntN(80), outside)...)
		from, to := filepath.Join(dir, "from"), filepath.Join(dir, "x/y/to")
		if err := Copy(t.Context(), from, to, true); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		wantTree(t, to, snapshot(t, from)...)
		check()
	}
}

// TestRandomTreesAreMerged compares a copy into another tree with a model, which is a map of names.
// Both must have the same result, or both must report a conflict.
func TestRandomTreesAreMerged(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	outside, check := guarded(t)
	merged, refused := 0, 0
	seeds := testutil.Rounds[uint64](30, 40, 120)
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 3))
		dir := planted(t, "from", "to")
		from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
		plant(t, from, randomTree(r, 3+r.IntN(8), outside)...)
		plant(t, to, randomTree(r, 3+r.IntN(8), outside)...)
		want, conflict := overlay(snapshot(t, from), snapshot(t, to))
		err := Copy(t.Context(), from, to, true)
		if (err != nil) != conflict {
			t.Errorf("seed %d: conflict %v, but %v", seed, conflict, err)
		}
		if conflict {
			refused++
		} else {
			merged++
			wantTree(t, to, want...)
		}
		check()
	}
	if least := int(seeds / 6); merged < least || refused < least {
		t.Errorf("%d merged and %d refused: the trees are of no use", merged, refused)
	}
}

// overlay is a slow and simple merge of two snapshots.
func overlay(over, under []string) (merged []string, conflict bool) {
	split := func(line string) (name string, kind byte) {
		i := strings.IndexAny(line, "=|")
		if j := strings.Index(line, " -> "); j >= 0 && (i < 0 || j < i) {
			return line[:j], '>'
		}
		if i >= 0 {
			return line[:i], line[i]
		}
		return strings.TrimSuffix(line, "/"), '/'
	}
	lines := map[string]string{}
	for _, line := range under {
		name, _ := split(line)
		lines[name] = line
	}
	for _, line := range over {
		name, kind := split(line)
		if old, ok := lines[name]; ok {
			_, oldKind := split(old)
			if kind != oldKind || kind == '>' {
				return nil, true
			}
		}
		lines[name] = line
	}
	for _, line := range lines {
		merged = append(merged, line)
	}
	return merged, false
}

func TestRandomTreesAreWalked(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	outside, check := guarded(t)
	truncated := 0
	seeds := testutil.Rounds[uint64](20, 30, 70)
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 4))
		// The tree is below two extra directories, to which its links lead.
		dir := filepath.Join(planted(t, "a/b"), "a/b")
		plant(t, dir, randomTree(r, 5+r.IntN(60), outside)...)
		o := WalkOptions{
			MaxDepth: uint64(r.IntN(5)), MaxDirectories: 1 + uint64(r.IntN(20)), MaxEntries: 1 + uint64(r.IntN(60)),
			FollowDirectorySymlinks: r.IntN(2) == 0, PruneHiddenDirectories: r.IntN(2) == 0,
		}
		withoutOpenat2(t, func(t *testing.T) {
			got, err := Walk(t.Context(), dir, o)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			want := slowWalk(t, dir, o)
			if !slices.Equal(got.Entries, want.Entries) || got.Truncated != want.Truncated || len(got.Errors) > 0 {
				t.Errorf("seed %d, %+v:\n%v\nwant\n%v", seed, o, got, want)
			}
			if got.Truncated {
				truncated++
			}
		})
		check()
	}
	if all := 2 * int(seeds); truncated < all/7 || truncated > all-all/7 {
		t.Errorf("%d of %d truncated: the limits are of no use", truncated, all)
	}
}

// slowWalk is Walk implemented with paths and package os.
func slowWalk(t *testing.T, root string, o WalkOptions) (result WalkResult) {
	type directory struct {
		path  string
		depth uint64
	}
	var entered []os.FileInfo
	looked := uint64(0)
	for queue := []directory{{root, 0}}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		info, err := os.Stat(at.path)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(entered, func(e os.FileInfo) bool { return os.SameFile(e, info) }) {
			continue
		}
		if uint64(len(entered)) == o.MaxDirectories {
			result.Truncated = true
			return result
		}
		entered = append(entered, info)
		names, err := os.ReadDir(at.path)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range names {
			full := filepath.Join(at.path, e.Name())
			info, err := os.Stat(full)
			if err != nil {
				continue
			}
			if looked == o.MaxEntries {
				result.Truncated = true
				return result
			}
			looked++
			isLink := e.Type()&os.ModeSymlink != 0
			if isLink && !(info.IsDir() && o.FollowDirectorySymlinks) || !info.IsDir() && !info.Mode().IsRegular() {
				continue
			}
			result.Entries = append(result.Entries, WalkEntry{Path: full, IsDirectory: info.IsDir()})
			if info.IsDir() && at.depth < o.MaxDepth && !(o.PruneHiddenDirectories && strings.HasPrefix(e.Name(), ".")) {
				queue = append(queue, directory{full, at.depth + 1})
			}
		}
	}
	return result
}

// fewDescriptors permits the process only n more descriptors than it has now.
func fewDescriptors(t *testing.T, more uint64) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	testutil.Need(t, "/proc to count descriptors with", err, fs.ErrNotExist)
	highest := 0
	for _, e := range open {
		var fd int
		if _, err := fmt.Sscan(e.Name(), &fd); err == nil {
			highest = max(highest, fd)
		}
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	limit := before
	limit.Cur = uint64(highest) + 1 + more
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	})
}

const deep = 5000

// TestDeepTree copies, walks and removes a tree that is far deeper than paths
// may be long, with few descriptors.
func TestDeepTree(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	dir := planted(t, "from")
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	at, err := openDirAt(unix.AT_FDCWD, from)
	if err != nil {
		t.Fatal(err)
	}
	for i := range deep {
		next, made, err := makeDir(at, "directory", 0o755)
		if err != nil || !made {
			t.Fatalf("level %d: %v", i, err)
		}
		_ = unix.Close(at)
		at = next
	}
	fd, err := openAt(at, "bottom", unix.O_WRONLY|unix.O_CREAT, 0o644, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
	_ = unix.Close(at)
	// The test needs descriptors for two cursors and for the files in work.
	fewDescriptors(t, 2*(heldParents+1)+6)
	if err := Copy(t.Context(), from, to, true); err != nil {
		t.Fatalf("copy: %.300v", err)
	}
	w, err := Walk(t.Context(), to, WalkOptions{MaxDepth: MaxWalkDepth, MaxDirectories: MaxWalkDirectories, MaxEntries: MaxWalkEntries})
	if err != nil || len(w.Entries) != MaxWalkDepth+1 || len(w.Errors) != 0 || w.Truncated {
		t.Errorf("walk: %d entries, %d errors, %v", len(w.Entries), len(w.Errors), err)
	}
	if levels := countLevels(t, to); levels != deep {
		t.Errorf("the copy has %d levels, want %d", levels, deep)
	}
	for _, tree := range []string{from, to} {
		if err := Remove(t.Context(), tree, RemoveOptions{Recursive: true}); err != nil {
			t.Fatalf("remove: %.300v", err)
		}
	}
	wantTree(t, dir)
}

// countLevels goes down to the deepest directory.
func countLevels(t *testing.T, dir string) int {
	t.Helper()
	at, err := openDirAt(unix.AT_FDCWD, dir)
	for n := 0; ; n++ {
		if err != nil {
			t.Fatal(err)
		}
		next, e := openDirAt(at, "directory")
		if e == unix.ENOENT {
			if err := unix.Faccessat(at, "bottom", unix.R_OK, 0); err != nil {
				t.Errorf("at the bottom: %v", err)
			}
			_ = unix.Close(at)
			return n
		}
		_ = unix.Close(at)
		at, err = next, e
	}
}

func TestWalkRules(t *testing.T) {
	dir := planted(t, "d", "d/.h", "d/.h/x=", "d/f=", "l -> d", "lf -> d/f", "dang -> none", "p|", ".top", ".top/in")
	in := func(name string) string { return filepath.Join(dir, name) }
	all := WalkOptions{MaxDepth: 9, MaxDirectories: 99, MaxEntries: 99}
	with := func(change func(o *WalkOptions)) WalkOptions {
		o := all
		change(&o)
		return o
	}
	follow := with(func(o *WalkOptions) { o.FollowDirectorySymlinks = true })
	for _, tt := range []struct {
		name, root string
		o          WalkOptions
		want       []string
		truncated  bool
	}{
		{"links and pipes are not listed", "", all, []string{".top/", "d/", ".top/in/", "d/.h/", "d/f", "d/.h/x"}, false},
		{"links to directories are, when followed, and none is entered twice", "", follow,
			[]string{".top/", "d/", "l/", ".top/in/", "d/.h/", "d/f", "d/.h/x"}, false},
		{"hidden directories are listed only", "", with(func(o *WalkOptions) { o.PruneHiddenDirectories = true }),
			[]string{".top/", "d/", "d/.h/", "d/f"}, false},
		{"a hidden root is entered", ".top", with(func(o *WalkOptions) { o.PruneHiddenDirectories = true }), []string{".top/in/"}, false},
		{"depth 0 is the children", "", with(func(o *WalkOptions) { o.MaxDepth = 0 }), []string{".top/", "d/"}, false},
		{"one directory is the root", "", with(func(o *WalkOptions) { o.MaxDirectories = 1 }), []string{".top/", "d/"}, true},
		{"enough directories", "", with(func(o *WalkOptions) { o.MaxDirectories = 5 }),
			[]string{".top/", "d/", ".top/in/", "d/.h/", "d/f", "d/.h/x"}, false},
		{"entries count what is not listed", "", with(func(o *WalkOptions) { o.MaxEntries = 5 }), []string{".top/", "d/"}, true},
		{"enough entries", "", with(func(o *WalkOptions) { o.MaxEntries = 9 }),
			[]string{".top/", "d/", ".top/in/", "d/.h/", "d/f", "d/.h/x"}, false},
		{"a file has nothing in it", "d/f", all, nil, false},
		{"a pipe has nothing in it", "p", all, nil, false},
		{"a link has nothing in it", "l", all, nil, false},
		{"a link to a file has nothing in it", "lf", follow, nil, false},
		{"a link that is followed has", "l", follow, []string{"l/.h/", "l/f", "l/.h/x"}, false},
	} {
		got, err := Walk(t.Context(), in(tt.root), tt.o)
		var names []string
		for _, e := range got.Entries {
			name, _ := strings.CutPrefix(e.Path, dir+"/")
			if e.IsDirectory {
				name += "/"
			}
			names = append(names, name)
		}
		if err != nil || !slices.Equal(names, tt.want) || got.Truncated != tt.truncated {
			t.Errorf("%s: %q, %v, %v; want %q", tt.name, names, got.Truncated, err, tt.want)
		}
	}
	for name, want := range map[string]error{"none": unix.ENOENT, "dang": unix.ENOENT, "d/f/x": unix.ENOTDIR} {
		_, err := Walk(t.Context(), in(name), all)
		wantError(t, name, err, want, in(name))
	}
}

func TestWalkLimits(t *testing.T) {
	dir := planted(t)
	for _, tt := range []struct {
		o    WalkOptions
		want error
		text string
	}{
		{WalkOptions{MaxDepth: MaxWalkDepth, MaxDirectories: MaxWalkDirectories, MaxEntries: MaxWalkEntries}, nil, ""},
		{WalkOptions{MaxDirectories: 0, MaxEntries: 1}, ErrWalkLimits, "filesystem walk limits must be greater than zero"},
		{WalkOptions{MaxDirectories: 1, MaxEntries: 0}, ErrWalkLimits, "filesystem walk limits must be greater than zero"},
		{WalkOptions{MaxDepth: MaxWalkDepth + 1, MaxDirectories: 1, MaxEntries: 1}, ErrWalkMaximums,
			"filesystem walk limits exceed maximums: depth=64, directories=10000, entries=50000"},
		{WalkOptions{MaxDirectories: MaxWalkDirectories + 1, MaxEntries: 1}, ErrWalkMaximums, ErrWalkMaximums.text},
		{WalkOptions{MaxDirectories: 1, MaxEntries: MaxWalkEntries + 1}, ErrWalkMaximums, ErrWalkMaximums.text},
	} {
		_, err := Walk(t.Context(), dir, tt.o)
		if tt.want == nil && err != nil || tt.want != nil && (err != tt.want || err.Error() != tt.text) {
			t.Errorf("%+v: got error %v; want no error, %v, %v", tt.o, err, tt.want, tt.text)
		}
	}
}

func TestWalkTellsWhatItCannotRead(t *testing.T) {
	dir := planted(t, "a", "a/x=", "b", "b/y=")
	a := filepath.Join(dir, "a")
	give(t, dir)
	if err := os.Chmod(a, 0); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		got, err := Walk(t.Context(), dir, WalkOptions{MaxDepth: 9, MaxDirectories: 9, MaxEntries: 9})
		if err != nil || len(got.Entries) != 3 || len(got.Errors) != 1 {
			t.Fatalf("got %+v, error %v; want no error, len(got.Entries) 3, len(got.Errors) 1", got, err)
		}
		if got.Errors[0].Path != a {
			t.Errorf("the error is about %s", got.Errors[0].Path)
		}
		wantError(t, "walk", got.Errors[0].Err, unix.EACCES, a)
	})
	if err := os.Chmod(a, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestWalkStaysInside replaces a directory by a link after it was found and
// before it is entered.
func TestWalkStaysInside(t *testing.T) {
	outside, check := guarded(t)
	withoutOpenat2(t, func(t *testing.T) {
		for _, swapped := range []string{"d", "d/s"} {
			dir := planted(t, "d", "d/s")
			fd, err := openDirAt(unix.AT_FDCWD, dir)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			if err := os.RemoveAll(filepath.Join(dir, swapped)); err != nil {
				t.Fatal(err)
			}
			plant(t, dir, swapped+" -> "+outside)
			w := &walker{ctx: t.Context(), o: WalkOptions{MaxDirectories: 9, MaxEntries: 9}, root: dir, fd: fd, entered: map[fileID]bool{}}
			if err := w.enter(pending{"d/s", 1}); err != ErrSymlink && err != unix.ENOENT || len(w.result.Entries) > 0 {
				t.Errorf("%s swapped: %+v, %v", swapped, w.result, err)
			}
		}
	})
	check()
}
