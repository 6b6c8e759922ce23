//go:build linux

package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"codex.internal/pkg/host/dirfd"
	"golang.org/x/sys/unix"
)

func openDir(t *testing.T, path string) *dirfd.Dir {
	t.Helper()
	d, err := dirfd.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// pack returns the archive of a directory. It reads the archive in blocks of n bytes.
func pack(t *testing.T, source string, o PackOptions, n int) []byte {
	t.Helper()
	p := NewPacker(openDir(t, source), o)
	defer p.Close()
	var all []byte
	for b := make([]byte, n); ; {
		got, err := p.Read(b)
		all = append(all, b[:got]...)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// unpack writes an archive into a directory in pieces of n bytes, and returns the reported
// failures.
func unpack(t *testing.T, target string, o UnpackOptions, text []byte, n int) (failed []string, err error) {
	t.Helper()
	o.Failed = func(path string, err error) { failed = append(failed, path+": "+err.Error()) }
	u := NewUnpacker(openDir(t, target), false, o)
	for piece := range slices.Chunk(text, n) {
		if _, err := u.Write(piece); err != nil {
			u.Abort()
			return failed, err
		}
	}
	return failed, u.Close()
}

// snapshot describes a tree: one line for each name.
func snapshot(t *testing.T, root string) []string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := os.Lstat(path)
		if err != nil {
			return err
		}
		below, _ := filepath.Rel(root, path)
		line := fmt.Sprintf("%q %v %d", below, st.Mode(), st.ModTime().UnixNano())
		switch {
		case st.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d %x", len(data), maphash(data))
		case st.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " -> " + target
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func maphash(data []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range data {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// grow adds a random tree to a directory.
func grow(t *testing.T, r *rand.Rand, at string, depth int) {
	t.Helper()
	names := map[string]bool{}
	for range r.IntN(12) {
		name := randomName(r)
		if names[name] {
			continue
		}
		names[name] = true
		path := filepath.Join(at, name)
		switch r.IntN(5) {
		case 0:
			if err := os.Symlink(strings.Repeat("x/", r.IntN(80))+"t", path); err != nil {
				t.Fatal(err)
			}
			continue
		case 1:
			if depth > 0 {
				if err := os.Mkdir(path, 0o755); err != nil {
					t.Fatal(err)
				}
				grow(t, r, path, depth-1)
				break
			}
			fallthrough
		default:
			data := make([]byte, []int{0, 1, 511, 512, 513, 70_000, smallFile, smallFile + 1}[r.IntN(8)])
			for i := range data {
				data[i] = byte(r.Uint32())
			}
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		finishRandom(t, r, path)
	}
	finishRandom(t, r, at)
}

func finishRandom(t *testing.T, r *rand.Rand, path string) {
	t.Helper()
	when := time.Unix(r.Int64N(4e9)-1e9, r.Int64N(2)*r.Int64N(1e9))
	if err := os.Chtimes(path, when, when); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o700|fs.FileMode(r.IntN(0o100))); err != nil {
		t.Fatal(err)
	}
}

func randomName(r *rand.Rand) string {
	const letters = "ab \n\xff-*?\"'\\日本 .~"
	b := []byte{'n'}
	for range r.IntN(120) {
		b = append(b, letters[r.IntN(len(letters))])
	}
	return string(b)
}

// TestTreesAreEqualAfterCopies copies random trees, in blocks of several sizes. It also reads
// each archive with package archive/tar.
func TestTreesAreEqualAfterCopies(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 1))
		source, target := t.TempDir(), t.TempDir()
		grow(t, r, source, 3)
		want := snapshot(t, source)
		text := pack(t, source, PackOptions{Times: true}, 1+r.IntN(3000))
		if whole := pack(t, source, PackOptions{Times: true}, 1<<20); !bytes.Equal(whole, text) {
			t.Fatalf("seed %d: an archive depends on the size of blocks", seed)
		}
		failed, err := unpack(t, target, UnpackOptions{Preserve: true}, text, 1+r.IntN(3000))
		if err != nil || failed != nil {
			t.Fatalf("seed %d: %v, %q", seed, err, failed)
		}
		if got := snapshot(t, target); !slices.Equal(got, want) {
			t.Fatalf("seed %d:\n%s\nwant\n%s", seed, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		listed := 0
		for tr := tar.NewReader(bytes.NewReader(text)); ; listed++ {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("seed %d: archive/tar: %v", seed, err)
			}
			st, err := os.Lstat(filepath.Join(source, h.Name))
			if err != nil || !st.ModTime().Equal(h.ModTime) || st.Mode().Perm() != h.FileInfo().Mode().Perm() || st.Mode().Type() != h.FileInfo().Mode().Type() {
				t.Fatalf("seed %d: %q: %v, %v, %v", seed, h.Name, h.ModTime, h.FileInfo().Mode(), err)
			}
		}
		if listed != len(want) {
			t.Errorf("seed %d: archive/tar finds %d entries of %d", seed, listed, len(want))
		}
	}
}

// TestTakesArchivesOfOthers unpacks archives that package archive/tar has written.
func TestTakesArchivesOfOthers(t *testing.T) {
	for _, format := range []tar.Format{tar.FormatUSTAR, tar.FormatPAX} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		long := strings.Repeat("d/", 60) + "f"
		for _, h := range []tar.Header{
			{Name: "./d/", Typeflag: tar.TypeDir, Mode: 0o755},
			{Name: long, Typeflag: tar.TypeReg, Mode: 0o640, Size: 3, ModTime: time.Unix(1e9, 0)},
			{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "d"},
		} {
			h.Format = format
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if h.Size > 0 {
				_, _ = w.Write([]byte("abc"))
			}
		}
		_ = w.Close()
		target := t.TempDir()
		failed, err := unpack(t, target, UnpackOptions{Preserve: true}, b.Bytes(), 700)
		if err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		st, err := os.Stat(target + "/" + long)
		if err != nil || st.Size() != 3 || st.Mode() != 0o640 || st.ModTime().Unix() != 1e9 {
			t.Error(st, err)
		}
	}
}

// TestFarTimes copies a file with a time that nanoseconds since 1970 cannot express in 64 bits.
func TestFarTimes(t *testing.T) {
	source, target := t.TempDir(), t.TempDir()
	far := time.Date(2300, 1, 1, 0, 0, 0, 5, time.UTC)
	if err := errors.Join(os.WriteFile(source+"/f", nil, 0o600), os.Symlink("f", source+"/l")); err != nil {
		t.Fatal(err)
	}
	times := []unix.Timespec{{Sec: far.Unix(), Nsec: 5}, {Sec: far.Unix(), Nsec: 5}}
	for _, name := range []string{"f", "l"} {
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, source+"/"+name, times, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			t.Fatal(err)
		}
	}
	text := pack(t, source, PackOptions{Times: true}, 1000)
	if failed, err := unpack(t, target, UnpackOptions{Preserve: true}, text, 1000); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	for _, name := range []string{"f", "l"} {
		if st, err := os.Lstat(target + "/" + name); err != nil || !st.ModTime().Equal(far) {
			t.Errorf("%s: %v, %v; want %v", name, st, err, far)
		}
	}
}

// TestOverwritesInPlace unpacks over a file that can be written but not replaced, because it is a mount point.
func TestOverwritesInPlace(t *testing.T) {
	source, target, mounted := t.TempDir(), t.TempDir(), t.TempDir()+"/m"
	name := target + "/f"
	err := errors.Join(os.WriteFile(source+"/f", []byte("new"), 0o640), os.WriteFile(name, nil, 0o600),
		os.WriteFile(mounted, []byte("longer than new"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(mounted, name, "", unix.MS_BIND, ""); err != nil {
		t.Skip("cannot mount:", err)
	}
	defer func() { _ = unix.Unmount(name, unix.MNT_DETACH) }()
	text := pack(t, source, PackOptions{Times: true}, 1000)
	if failed, err := unpack(t, target, UnpackOptions{Preserve: true}, text, 1000); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	got, err := os.ReadFile(mounted)
	st, statErr := os.Stat(mounted)
	if err = errors.Join(err, statErr); err != nil || string(got) != "new" || st.Mode() != 0o640 {
		t.Errorf("got %q, %v, %v; want \"new\" with mode 0640", got, st, err)
	}
	if names, err := os.ReadDir(target); err != nil || len(names) != 1 {
		t.Errorf("got the names %v, %v; want one", names, err)
	}
}

// withoutPrivilege takes from the calling test the capability to ignore modes, which root has. Its thread ends with the test.
func withoutPrivilege(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	runtime.LockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	data[0].Effective &^= 1 << unix.CAP_DAC_OVERRIDE
	if err = errors.Join(err, unix.Capset(&header, &data[0])); err != nil {
		t.Fatal(err)
	}
}

// TestOverwritesInUnwritableDirectory unpacks over a file whose directory the user may not write to.
func TestOverwritesInUnwritableDirectory(t *testing.T) {
	withoutPrivilege(t)
	source, target := t.TempDir(), t.TempDir()
	err := errors.Join(os.WriteFile(source+"/f", []byte("new"), 0o600), os.WriteFile(target+"/f", []byte("longer"), 0o600), os.Chmod(target, 0o555))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(target, 0o755) }()
	failed, err := unpack(t, target, UnpackOptions{}, pack(t, source, PackOptions{Paths: []string{"f"}}, 1000), 1000)
	if got, readErr := os.ReadFile(target + "/f"); string(got) != "new" || errors.Join(err, readErr) != nil || failed != nil {
		t.Errorf("got %q, %v, %v, failures %q; want \"new\"", got, err, readErr, failed)
	}
}

func TestSparseFiles(t *testing.T) {
	source, target := t.TempDir(), t.TempDir()
	const size = 1 << 30
	f, err := os.Create(source + "/sparse")
	if err != nil {
		t.Fatal(err)
	}
	_, beginErr := f.WriteAt([]byte("begin"), 1<<20)
	_, middleErr := f.WriteAt([]byte("middle"), 512<<20)
	err = errors.Join(beginErr, middleErr, f.Truncate(size), f.Close(), os.WriteFile(source+"/hole", nil, 0o600), os.Truncate(source+"/hole", size))
	var st unix.Stat_t
	if err = errors.Join(err, unix.Stat(source+"/sparse", &st)); err != nil {
		t.Fatal(err)
	}
	if st.Blocks*512 >= size {
		t.Skip("the file system keeps no holes")
	}
	text := pack(t, source, PackOptions{}, 1<<20)
	if len(text) > 1<<20 {
		t.Fatalf("the archive has %d bytes", len(text))
	}
	if failed, err := unpack(t, target, UnpackOptions{}, text, 1000); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	if f, err = os.Open(target + "/sparse"); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 6)
	if _, err := f.ReadAt(b[:5], 1<<20); err != nil || string(b[:5]) != "begin" {
		t.Error(string(b), err)
	}
	if _, err := f.ReadAt(b, 512<<20); err != nil || string(b) != "middle" {
		t.Error(string(b), err)
	}
	for _, name := range []string{"sparse", "hole"} {
		if err := unix.Stat(target+"/"+name, &st); err != nil || st.Size != size || st.Blocks*512 > 1<<20 {
			t.Errorf("%s: size %d, %d blocks, %v", name, st.Size, st.Blocks, err)
		}
	}
}

// TestPutMakesHoles: long runs of zeros become holes, also at the end of the file.
func TestPutMakesHoles(t *testing.T) {
	target := t.TempDir()
	content := slices.Concat([]byte("begin"), make([]byte, 8<<20), []byte("middle"), make([]byte, 8<<20))
	u := NewUnpacker(openDir(t, target), false, UnpackOptions{})
	defer u.Abort()
	if err := u.Put(&Entry{Path: "f", Type: File, Perm: 0o600}, bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(target + "/f")
	if err != nil || !bytes.Equal(got, content) {
		t.Fatalf("got %d other bytes, %v; want %d", len(got), err, len(content))
	}
	var st unix.Stat_t
	if err := unix.Stat(target+"/f", &st); err != nil || st.Blocks*512 > 4<<20 {
		t.Errorf("it takes %d blocks, %v", st.Blocks, err)
	}
}

// TestGoesOnAfterACut interrupts a copy at every block, and continues it with another archive
// that begins after the last completed entry.
func TestGoesOnAfterACut(t *testing.T) {
	source := t.TempDir()
	grow(t, rand.New(rand.NewPCG(7, 7)), source, 3)
	want := snapshot(t, source)
	whole := pack(t, source, PackOptions{Times: true}, 1<<20)
	for cut := 0; cut < len(whole); cut += max(block, len(whole)/12/block*block) {
		target := t.TempDir()
		u := NewUnpacker(openDir(t, target), false, UnpackOptions{Preserve: true, Failed: func(path string, err error) { t.Error(path, err) }})
		if _, err := u.Write(whole[:cut]); err != nil {
			t.Fatal(err)
		}
		u.Restart()
		rest := pack(t, source, PackOptions{Times: true, After: u.Done()}, 1<<20)
		if cut > len(whole)/2 && len(rest) > len(whole) {
			t.Errorf("the rest has %d bytes of %d", len(rest), len(whole))
		}
		if _, err := u.Write(rest); err != nil {
			t.Fatal(err)
		}
		if err := u.Close(); err != nil {
			t.Fatal(err)
		}
		if got := snapshot(t, target); !slices.Equal(got, want) {
			t.Fatalf("cut at %d:\n%s\nwant\n%s", cut, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestSelection(t *testing.T) {
	source, target := t.TempDir(), t.TempDir()
	for _, name := range []string{"a/b/c", "a/b/d", "a/e", "f", "g/h"} {
		_ = os.MkdirAll(filepath.Dir(source+"/"+name), 0o755)
		_ = os.WriteFile(source+"/"+name, []byte(name), 0o644)
	}
	_ = os.Symlink("a", source+"/link")
	text := pack(t, source, PackOptions{Paths: []string{"g", "a/b/d", "a/b/d", "f", "../x", "link/e", "missing", "a//e"}}, 1000)
	failed, err := unpack(t, target, UnpackOptions{}, text, 1000)
	slices.Sort(failed)
	wantFailed := []string{"../x: " + errName.Error(), "a//e: " + errName.Error(), "missing: no such file or directory"}
	if err != nil || !slices.Equal(failed, wantFailed) {
		t.Error(err, failed)
	}
	var got []string
	for _, line := range snapshot(t, target) {
		got = append(got, strings.Trim(strings.Fields(line)[0], `"`))
	}
	if want := []string{".", "a", "a/b", "a/b/d", "f", "g", "link"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestExclude(t *testing.T) {
	source := t.TempDir()
	for _, name := range []string{"a/x.o", "a/y.c", "b/c/z", "n/m"} {
		_ = os.MkdirAll(filepath.Dir(source+"/"+name), 0o755)
		_ = os.WriteFile(source+"/"+name, nil, 0o644)
	}
	exclude, err := Excluder([]string{"*.o", "b/c", "n/"})
	if err != nil {
		t.Fatal(err)
	}
	text := pack(t, source, PackOptions{Exclude: exclude, List: true}, 1000)
	var got []string
	for _, e := range entriesOf(t, text) {
		got = append(got, e.Path)
	}
	if !slices.Equal(got, []string{".", "a", "a/y.c", "b"}) {
		t.Errorf(`got %v, want []string{".", "a", "a/y.c", "b"}`, got)
	}
	if _, err := Excluder([]string{"["}); err == nil {
		t.Error("a malformed pattern was accepted")
	}
}

// entriesOf returns the entries of an archive.
func entriesOf(t *testing.T, text []byte) []Entry {
	t.Helper()
	var c collected
	p := parser{to: &c}
	if err := p.write(text); err != nil {
		t.Fatal(err)
	}
	if err := p.close(); err != nil {
		t.Fatal(err)
	}
	return c.entries
}

type collected struct{ entries []Entry }

func (c *collected) begin(e *Entry)  { c.entries = append(c.entries, *e) }
func (*collected) skip(string, byte) {}
func (*collected) data([]byte)       {}
func (*collected) end()              {}

func TestLists(t *testing.T) {
	source := t.TempDir()
	if err := os.WriteFile(source+"/f", []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	when := time.Unix(1e9, 123456789)
	_ = os.Chtimes(source+"/f", when, when)
	list := entriesOf(t, pack(t, source, PackOptions{List: true, Sums: true, Times: true}, 1000))
	if len(list) != 2 || list[1].Type != Listed || list[1].Size != 3 || !list[1].Modified.Equal(when) ||
		list[1].Sum != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("got %+v; want len(list) 2, list[1].Type %v, list[1].Size 3, list[1].Modified.Equal(when), list[1].Sum %v", list, Listed, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
	}
}

func TestEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := NewPacker(openDir(t, t.TempDir()), PackOptions{Context: ctx})
	defer p.Close()
	cancel()
	if _, err := io.ReadAll(p); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
