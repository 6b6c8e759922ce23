package files

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCopy(t *testing.T) {
	tree := []string{"f=text", "old=x", "d", "d/f=a", "d/s", "d/s/g=b", "d/l -> f", "d/dang -> none", "e", "e/f=old", "e/keep=x",
		"l -> f", "ld -> d", "le -> e", "dang -> made", "loop -> loop", "p|"}
	for _, tt := range []struct {
		name, from, to string
		recursive      bool
		more           []string // the resulting tree, or its error
		want           error
		at             string // the path in the error
	}{
		{"a file", "f", "new", false, []string{"new=text"}, nil, ""},
		{"a file onto another", "f", "old", true, []string{"old=text"}, nil, ""},
		{"a file to where a link leads", "f", "le/f", false, []string{"e/f=text"}, nil, ""},
		{"a file onto a link", "old", "l", false, []string{"f=x"}, nil, ""},
		{"a file onto a link that leads nowhere", "f", "dang", false, []string{"made=text"}, nil, ""},
		{"a file onto a directory", "f", "e", true, nil, unix.EISDIR, "e"},
		{"a file onto the root", "f", "/", true, nil, unix.EISDIR, "/"},
		{"a file into nothing", "f", "none/x", true, nil, unix.ENOENT, "none/x"},
		{"a file into a file", "f", "old/x", true, nil, unix.ENOTDIR, "old/x"},
		{"a file onto itself", "f", "f", false, nil, ErrSameFile, ""},
		{"a file onto itself by a link", "f", "l", false, nil, ErrSameFile, ""},
		{"a file onto a pipe that nobody reads", "f", "p", false, nil, unix.ENXIO, "p"},
		{"nothing", "none", "x", true, nil, unix.ENOENT, "none"},
		{"a link", "l", "l2", false, []string{"l2 -> f"}, nil, ""},
		{"a link to a directory", "ld", "l2", false, []string{"l2 -> d"}, nil, ""},
		{"a link that leads nowhere", "dang", "l2", false, []string{"l2 -> made"}, nil, ""},
		{"a link that leads to itself", "loop", "l2", false, []string{"l2 -> loop"}, nil, ""},
		{"a link onto something", "l", "old", false, nil, unix.EEXIST, "old"},
		{"a link onto itself", "l", "l", false, nil, unix.EEXIST, "l"},
		{"a pipe", "p", "x", true, nil, ErrSpecial, ""},
		{"a directory without recursive", "d", "x", false, nil, ErrNotRecursive, ""},
		{"a directory", "d", "x/y", true,
			[]string{"x/", "x/y/", "x/y/f=a", "x/y/s/", "x/y/s/g=b", "x/y/l -> f", "x/y/dang -> none"}, nil, ""},
		{"a directory into another", "d", "e", true,
			[]string{"e/f=a", "e/s/", "e/s/g=b", "e/l -> f", "e/dang -> none"}, nil, ""},
		{"a directory to where a link leads", "d", "le", true,
			[]string{"e/f=a", "e/s/", "e/s/g=b", "e/l -> f", "e/dang -> none"}, nil, ""},
		{"a directory onto a file", "d", "old", true, nil, unix.EEXIST, "old"},
		{"a directory into a file", "d", "old/x", true, nil, unix.ENOTDIR, "old/x"},
		{"a directory onto a link that leads nowhere", "d", "dang", true, nil, unix.EEXIST, "dang"},
		{"a directory into itself", "d", "d", true, nil, ErrIntoItself, ""},
		{"a directory below itself", "d", "d/s/x/y", true, nil, ErrIntoItself, ""},
		{"a directory below itself by a link", "d", "ld/x", true, nil, ErrIntoItself, ""},
		{"all into itself", "/", "x", true, nil, ErrIntoItself, ""},
		{"all without recursive", "/", "x", false, nil, ErrNotRecursive, ""},
	} {
		dir := planted(t, tree...)
		in := func(name string) string {
			if filepath.IsAbs(name) {
				return name
			}
			return filepath.Join(dir, name)
		}
		want := map[string]string{}
		for _, line := range append(snapshot(t, dir), tt.more...) {
			name, _, _ := strings.Cut(strings.SplitN(line, " -> ", 2)[0], "=")
			want[name] = line
		}
		err := Copy(t.Context(), in(tt.from), in(tt.to), tt.recursive)
		if tt.want == nil && err != nil {
			t.Errorf("%s: got error %v, want no error", tt.name, err)
		}
		if tt.want != nil {
			wantError(t, tt.name, err, tt.want, in(tt.at))
		}
		var lines []string
		for _, line := range want {
			lines = append(lines, line)
		}
		wantTree(t, dir, lines...)
	}
}

func TestCopyHardLinkOntoItsFile(t *testing.T) {
	dir := planted(t, "f=keep", "d", "e")
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"g", "d/f", "e/f"} {
		if err := os.Link(in("f"), in(name)); err != nil {
			t.Fatal(err)
		}
	}
	err := Copy(t.Context(), in("f"), in("g"), false)
	if !errors.Is(err, ErrSameFile) || !strings.Contains(err.Error(), in("g")) {
		t.Errorf("a file: %v", err)
	}
	err = Copy(t.Context(), in("d"), in("e"), true)
	if !errors.Is(err, ErrSameFile) || !strings.Contains(err.Error(), in("e/f")) {
		t.Errorf("in a tree: %v", err)
	}
	wantContents(t, in("f"), "keep")
}

func TestCopyModes(t *testing.T) {
	dir := planted(t, "f=x", "old=y", "d", "d/f=x", "d/ro", "d/ro/g=z", "e")
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, mode := range map[string]uint32{"f": 0o751, "old": 0o600, "d/f": 0o400, "d/ro": 0o555, "d": 0o2711, "e": 0o750} {
		if err := unix.Chmod(in(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	give(t, dir)
	asNobody(t, func() {
		for _, c := range [][2]string{{"f", "new"}, {"f", "old"}, {"d", "d2"}, {"d", "e"}} {
			if err := Copy(t.Context(), in(c[0]), in(c[1]), true); err != nil {
				t.Error(err)
			}
		}
	})
	for name, mode := range map[string]uint32{
		"new": 0o751, "old": 0o751, "d2": 0o2711, "d2/f": 0o400, "d2/ro": 0o555, "d2/ro/g": 0o644, "e": 0o750, "e/ro": 0o555,
	} {
		wantMode(t, in(name), mode)
	}
	for _, name := range []string{"d/ro", "d2/ro", "e/ro"} {
		if err := os.Chmod(in(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCopyLendsNothing: root's copy of another user's set-id program must not
// run as root.
func TestCopyLendsNothing(t *testing.T) {
	dir := planted(t, "mine=x", "theirs=x", "dir")
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"mine", "theirs"} {
		if err := unix.Chmod(in(name), 0o6755); err != nil {
			t.Fatal(err)
		}
	}
	if err := Copy(t.Context(), in("mine"), in("copy"), false); err != nil {
		t.Fatal(err)
	}
	wantMode(t, in("copy"), 0o6755)
	if os.Geteuid() != 0 {
		t.Skip("only root can have a file of somebody else here")
	}
	for _, name := range []string{"theirs", "dir"} {
		if err := os.Chown(in(name), nobody, nobody); err != nil {
			t.Fatal(err)
		}
		if err := unix.Chmod(in(name), 0o6755); err != nil {
			t.Fatal(err)
		}
		if err := Copy(t.Context(), in(name), in(name+"2"), true); err != nil {
			t.Fatal(err)
		}
		wantMode(t, in(name+"2"), 0o755)
	}
}

func TestCopyReportsSpecialFiles(t *testing.T) {
	dir := planted(t, "d", "d/a=x", "d/p|", "d/s", "d/s/q|", "d/z=y")
	in := func(name string) string { return filepath.Join(dir, name) }
	err := Copy(t.Context(), in("d"), in("e"), true)
	want := "fs/copy only supports regular files, directories, and symlinks: left out 2: " + in("d/p") + ", " + in("d/s/q")
	if !errors.Is(err, ErrSpecial) || err.Error() != want || Classify(err) != Invalid {
		t.Errorf("%v, want %s", err, want)
	}
	wantTree(t, in("e"), "a=x", "s/", "z=y")
	for i := range namedLeftOut {
		plant(t, dir, "d/p"+strconv.Itoa(i)+"|")
	}
	err = Copy(t.Context(), in("d"), in("e2"), true)
	if left, ok := errors.AsType[*LeftOutError](err); !ok || left.Count != namedLeftOut+2 || len(left.Paths) != namedLeftOut {
		t.Errorf("many: %v", err)
	}
}

// TestLongPathsLeftOut: if the paths together have too many bytes, the rest are only counted.
func TestLongPathsLeftOut(t *testing.T) {
	var c copier
	long := strings.Repeat("x", namedLeftOutBytes/2)
	for range 5 {
		c.leaveOut(long)
	}
	if c.leftOut.Count != 5 || len(c.leftOut.Paths) != 2 {
		t.Errorf("%d counted and %d named, want 5 and 2", c.leftOut.Count, len(c.leftOut.Paths))
	}
}

// TestCopyWritesThroughNoLink merges a tree into a tree that an attacker has prepared.
func TestCopyWritesThroughNoLink(t *testing.T) {
	outside, check := guarded(t)
	for _, tt := range []struct{ from, trap string }{
		{"x=new", "x -> " + outside + "/f"}, // over a file outside
		{"x=new", "x -> " + outside + "/n"}, // to a new one outside
		{"x", "x -> " + outside + "/d"},     // into a directory outside
		{"x -> y", "x -> " + outside + "/f"},
		{"x", "x=file"},
		{"x=new", "x|"},
	} {
		dir := planted(t, "from", "to")
		plant(t, filepath.Join(dir, "from"), tt.from)
		plant(t, filepath.Join(dir, "to"), tt.trap)
		if tt.from == "x" {
			plant(t, filepath.Join(dir, "from"), "x/f=new")
		}
		var reader *os.File
		if tt.trap == "x|" { // a reader waits at the pipe
			var err error
			if reader, err = os.OpenFile(filepath.Join(dir, "to/x"), os.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
				t.Fatal(err)
			}
		}
		err := Copy(t.Context(), filepath.Join(dir, "from"), filepath.Join(dir, "to"), true)
		wantError(t, tt.from+" onto "+tt.trap, err, unix.EEXIST, filepath.Join(dir, "to/x"))
		if reader != nil {
			if leaked, err := io.ReadAll(reader); err != nil || len(leaked) > 0 {
				t.Errorf("the pipe got %q, %v", leaked, err)
			}
			_ = reader.Close()
		}
		check()
	}
}

func TestCopyNamesWhatFailed(t *testing.T) {
	dir := planted(t, "d", "d/a=x", "d/secret=y", "d/z=z")
	if err := os.Chmod(filepath.Join(dir, "d/secret"), 0); err != nil {
		t.Fatal(err)
	}
	give(t, dir)
	asNobody(t, func() {
		err := Copy(t.Context(), filepath.Join(dir, "d"), filepath.Join(dir, "e"), true)
		wantError(t, "copy", err, unix.EACCES, filepath.Join(dir, "d/secret"))
	})
	wantTree(t, filepath.Join(dir, "e"), "a=x")
}

// TestCopyMeetsItself: if the destination is moved into the source during the
// copy, the copy still ends.
func TestCopyMeetsItself(t *testing.T) {
	dir := planted(t, "from", "to")
	c := &copier{ctx: t.Context(), from: at(t, filepath.Join(dir, "from")), to: at(t, filepath.Join(dir, "to"))}
	c.top = c.to.id
	if err := os.Rename(filepath.Join(dir, "to"), filepath.Join(dir, "from/to")); err != nil {
		t.Fatal(err)
	}
	if err := c.contents(); err != ErrIntoItself {
		t.Errorf("%v, want %v", err, ErrIntoItself)
	}
}

func TestCopyToDevice(t *testing.T) {
	var before, after unix.Stat_t
	if err := unix.Stat("/dev/null", &before); err != nil {
		t.Fatal(err)
	}
	dir := planted(t, "f=x")
	if err := os.Chmod(filepath.Join(dir, "f"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Copy(t.Context(), filepath.Join(dir, "f"), "/dev/null", false); err != nil {
		t.Error(err)
	}
	if err := unix.Stat("/dev/null", &after); err != nil || after.Mode != before.Mode {
		t.Errorf("the device has mode %o, %v; had %o", after.Mode, err, before.Mode)
	}
	err := Copy(t.Context(), filepath.Join(dir, "f"), "/dev/full", false)
	wantError(t, "a full device", err, unix.ENOSPC, "/dev/full")
}

func TestCopyContents(t *testing.T) {
	dir := planted(t, "longer="+strings.Repeat("x", 100))
	in := func(name string) string { return filepath.Join(dir, name) }
	big := strings.Repeat("0123456789abcdef", 3*copyBuffer/16) + "end"
	plant(t, dir, "big="+big)
	for _, to := range []string{"new", "longer"} {
		if err := Copy(t.Context(), in("big"), in(to), false); err != nil {
			t.Fatal(err)
		}
		wantContents(t, in(to), big)
	}
	plant(t, dir, "short=s")
	if err := Copy(t.Context(), in("short"), in("longer"), false); err != nil {
		t.Fatal(err)
	}
	wantContents(t, in("longer"), "s")

	// Copy without copy_file_range: first some bytes, then the rest.
	from, to := open2(t, in("big"), in("by hand"))
	c := &copier{ctx: t.Context()}
	for _, n := range []int64{copyBuffer + 5, -1} {
		if _, err := c.copyBuffered(from, to, n); err != nil {
			t.Fatal(err)
		}
	}
	wantContents(t, in("by hand"), big)

	// A file that the kernel generates reports size 0.
	if err := Copy(t.Context(), "/proc/version", in("version"), false); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("/proc/version")
	if err != nil {
		t.Fatal(err)
	}
	wantContents(t, in("version"), string(want))
}

// open2 opens two files for a test that copies between descriptors.
func open2(t *testing.T, from, to string) (in, out int) {
	t.Helper()
	in, err := open(from, unix.O_RDONLY, 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(in) })
	if out, err = open(to, unix.O_WRONLY|unix.O_CREAT, 0o644, Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(out) })
	return in, out
}

func TestCopyKeepsHoles(t *testing.T) {
	const size = 1 << 30
	dir := planted(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	f, err := os.Create(in("f"))
	if err != nil {
		t.Fatal(err)
	}
	for offset, text := range map[int64]string{0: "begin", size / 2: "middle"} {
		if _, err := f.WriteAt([]byte(text), offset); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		t.Fatal(err)
	}
	var from, to unix.Stat_t
	if err := unix.Stat(in("f"), &from); err != nil {
		t.Fatal(err)
	}
	if from.Blocks > 1<<15 {
		t.Skip("the file system has no holes")
	}
	if err := Copy(t.Context(), in("f"), in("g"), false); err != nil {
		t.Fatal(err)
	}
	if err := unix.Stat(in("g"), &to); err != nil || to.Size != size || to.Blocks > from.Blocks+64 {
		t.Errorf("%d bytes in %d blocks, %v; want %d in %d", to.Size, to.Blocks, err, size, from.Blocks)
	}
	h, err := OpenRead(in("g"))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for offset, want := range map[uint64]string{0: "begin\x00", size / 2: "middle\x00", size/2 - 2: "\x00\x00mi", size - 1: "\x00"} {
		b := make([]byte, len(want))
		if n, _, err := h.ReadAt(b, offset); err != nil || string(b[:n]) != want {
			t.Errorf("at %d: %q, %v; want %q", offset, b[:n], err, want)
		}
	}
}
