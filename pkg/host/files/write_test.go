package files

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestWriteFile(t *testing.T) {
	dir := planted(t, "d", "old=long content", "l -> old", "dang -> made", "hard=x")
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Chmod(in("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(in("old"), in("hard2")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"new", "l", "dang"} {
		if err := WriteFile(in(name), []byte(name), Options{}); err != nil {
			t.Error(err)
		}
	}
	wantTree(t, dir, "d/", "old=l", "hard2=l", "l -> old", "dang -> made", "made=dang", "hard=x", "new=new")
	wantMode(t, in("old"), 0o640)
	mask := unix.Umask(0o022)
	_ = unix.Umask(mask)
	wantMode(t, in("new"), 0o666&^uint32(mask))
	if err := WriteFile(in("new"), nil, Options{}); err != nil {
		t.Error(err)
	}
	wantContents(t, in("new"), "")
	for name, want := range map[string]error{
		in("d"): unix.EISDIR, "/": unix.EISDIR, in("no/x"): unix.ENOENT, in("old/x"): unix.ENOTDIR,
		in(strings.Repeat("n", 300)): unix.ENAMETOOLONG, "/dev/full": unix.ENOSPC,
	} {
		wantError(t, name, WriteFile(name, []byte("x"), Options{}), want, name)
	}
	if err := WriteFile("/dev/null", []byte("x"), Options{}); err != nil {
		t.Errorf("a device: %v", err)
	}
}

func TestWriteFileToPipe(t *testing.T) {
	name := filepath.Join(planted(t, "p|"), "p")
	wantError(t, "nobody reads", WriteFile(name, []byte("x"), Options{}), unix.ENXIO, name)

	r, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w, err := os.OpenFile(name, os.O_WRONLY|unix.O_NONBLOCK, 0) // so that the reader does not see the end of file
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	// This is more than a pipe can hold, so the write has to wait for the reader.
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	got := make([]byte, len(want))
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(r, got)
		read <- err
	}()
	if err := WriteFile(name, want, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil || !bytes.Equal(got, want) {
		t.Errorf("the reader got something else, %v", err)
	}

	defer func(d time.Duration) { writeStall = d }(writeStall)
	writeStall = 20 * time.Millisecond
	err = WriteFile(name, want, Options{})
	if !errors.Is(err, ErrStalled) || !strings.HasSuffix(err.Error(), name) {
		t.Errorf("nobody takes the data: %v", err)
	}
}

func TestWriteHandle(t *testing.T) {
	for _, atomic := range []bool{false, true} {
		dir := planted(t, "f=old and long", "l -> f")
		in := func(name string) string { return filepath.Join(dir, name) }
		for _, name := range []string{"f", "l", "new"} {
			h, err := OpenWrite(in(name), WriteOptions{Atomic: atomic})
			if err != nil {
				t.Fatal(err)
			}
			for _, block := range []struct {
				offset uint64
				data   string
			}{{5, "f"}, {0, "ab"}, {3, "d"}, {4, "e"}, {1, "B"}} {
				if err := h.WriteAt([]byte(block.data), block.offset); err != nil {
					t.Fatal(err)
				}
			}
			for _, offset := range []uint64{math.MaxInt64, math.MaxUint64} {
				if err := h.WriteAt([]byte("x"), offset); err != ErrOffset {
					t.Errorf("beyond: %v", err)
				}
			}
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			wantContents(t, in(name), "aB\x00def")
			if err := h.Close(); err != os.ErrClosed {
				t.Errorf("closed twice: %v", err)
			}
			if err := h.Abort(); err != os.ErrClosed {
				t.Errorf("closed and aborted: %v", err)
			}
			if err := h.WriteAt([]byte("x"), 0); !errors.Is(err, os.ErrClosed) {
				t.Errorf("written after the end: %v", err)
			}
		}
		wantTree(t, dir, "f=aB\x00def", "l -> f", "new=aB\x00def")
	}
}

func TestWriteHandleRefuses(t *testing.T) {
	dir := planted(t, "d", "f=x", "p|", "ld -> d", "lp -> p", "loop -> loop", "dang -> none")
	in := func(name string) string { return filepath.Join(dir, name) }
	before := snapshot(t, dir)
	for _, tt := range []struct {
		name          string
		plain, atomic error
	}{
		{in("d"), unix.EISDIR, unix.EISDIR},
		{in("ld"), unix.EISDIR, ErrNotFile},
		{"/", unix.EISDIR, ErrRoot},
		{in("p"), ErrNotFile, ErrNotFile},
		{in("lp"), ErrNotFile, ErrNotFile},
		{"/dev/null", ErrNotFile, ErrNotFile},
		{in("no/x"), unix.ENOENT, unix.ENOENT},
		{in("f/x"), unix.ENOTDIR, unix.ENOTDIR},
		{in("loop"), unix.ELOOP, unix.ELOOP},
	} {
		_, err := OpenWrite(tt.name, WriteOptions{})
		wantError(t, tt.name, err, tt.plain, tt.name)
		_, err = OpenWrite(tt.name, WriteOptions{Atomic: true})
		wantError(t, "atomic "+tt.name, err, tt.atomic, tt.name)
	}
	_, err := OpenWrite(in("dang"), WriteOptions{Atomic: true})
	if !errors.Is(err, ErrDangling) || !strings.Contains(err.Error(), in("dang")) {
		t.Errorf("a dangling link: %v", err)
	}
	wantTree(t, dir, before...)
}

func TestAtomicWrite(t *testing.T) {
	dir := planted(t, "f=old", "g=other")
	name := filepath.Join(dir, "f")
	if err := os.Chmod(name, 0o4751); err != nil {
		t.Fatal(err)
	}
	give(t, dir)

	h, err := OpenWrite(name, WriteOptions{Atomic: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.WriteAt([]byte("new"), 0); err != nil {
		t.Fatal(err)
	}
	wantContents(t, name, "old")
	if n := len(snapshot(t, dir)); n != 3 {
		t.Errorf("%d names while it is written, want 3", n)
	}
	if err := h.Abort(); err != nil {
		t.Error(err)
	}
	wantTree(t, dir, "f=old", "g=other")

	h, err = OpenWrite(name, WriteOptions{Atomic: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.WriteAt([]byte("new"), 0); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	wantTree(t, dir, "f=new", "g=other")
	wantMode(t, name, 0o751)
	if os.Geteuid() == 0 {
		var st unix.Stat_t
		if err := unix.Stat(name, &st); err != nil || st.Uid != nobody || st.Gid != nobody {
			t.Errorf("the owner became %d:%d, %v", st.Uid, st.Gid, err)
		}
	}
}

// TestAtomicWriteReplacesNames changes the target while it is written. The write replaces the name,
// and does not change the target of a link with that name.
func TestAtomicWriteReplacesNames(t *testing.T) {
	dir := planted(t, "f=old", "victim=safe", "d")
	name := filepath.Join(dir, "f")
	begin := func() *WriteHandle {
		h, err := OpenWrite(name, WriteOptions{Atomic: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.WriteAt([]byte("new"), 0); err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := begin()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	plant(t, dir, "f -> victim")
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	wantTree(t, dir, "f=new", "victim=safe", "d/")

	h = begin()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	plant(t, dir, "f/x")
	err := h.Close()
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EEXIST) {
		t.Errorf("a directory took the name: %v", err)
	}
	wantTree(t, dir, "f/", "f/x/", "victim=safe", "d/")
}

func TestAtomicWriteNeedsWhatAWriteNeeds(t *testing.T) {
	dir := planted(t, "f=old", "d", "d/f=old", "w=old")
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, mode := range map[string]os.FileMode{"f": 0o444, "d": 0o555} {
		if err := os.Chmod(in(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	give(t, dir)
	asNobody(t, func() {
		for _, name := range []string{"f", "d/new"} {
			_, err := OpenWrite(in(name), WriteOptions{Atomic: true})
			wantError(t, name, err, unix.EACCES, in(name))
		}
		h, err := OpenWrite(in("w"), WriteOptions{Atomic: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(in("d"), 0o755); err != nil {
		t.Fatal(err)
	}
	wantTree(t, dir, "f=old", "d/", "d/f=old", "w=")
}

// TestAtomicWriteInPlace writes files that the user may write but not replace, as cp and vi do.
func TestAtomicWriteInPlace(t *testing.T) {
	dir := planted(t, "d", "d/f=old and longer", "sticky", "sticky/f=old and longer")
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"d/f", "sticky/f"} {
		if err := os.Chmod(in(name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	give(t, dir)
	if os.Geteuid() == 0 {
		for _, name := range []string{"d", "sticky", "sticky/f"} { // the user owns neither the directory nor the file
			if err := os.Chown(in(name), 0, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(os.Chmod(in("d"), 0o555), os.Chmod(in("sticky"), os.ModeSticky|0o777)); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		for _, name := range []string{"d/f", "sticky/f"} {
			h, err := OpenWrite(in(name), WriteOptions{Atomic: true})
			if err == nil {
				err = errors.Join(h.WriteAt([]byte("new"), 0), h.Close())
			}
			if err != nil {
				t.Errorf("write %s: %v", name, err)
			}
		}
	})
	if err := os.Chmod(in("d"), 0o755); err != nil {
		t.Fatal(err)
	}
	wantTree(t, dir, "d/", "d/f=new", "sticky/", "sticky/f=new")
}

// TestAtomicWriteToMountPoint writes a file that is a mount point, as container engines make for
// single files.
func TestAtomicWriteToMountPoint(t *testing.T) {
	dir := planted(t, "f=old", "mounted=longer than new")
	name := filepath.Join(dir, "f")
	if err := unix.Mount(filepath.Join(dir, "mounted"), name, "", unix.MS_BIND, ""); err != nil {
		t.Skip("cannot mount:", err)
	}
	defer func() { _ = unix.Unmount(name, unix.MNT_DETACH) }()
	h, err := OpenWrite(name, WriteOptions{Atomic: true})
	if err == nil {
		err = errors.Join(h.WriteAt([]byte("new"), 0), h.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	wantTree(t, dir, "f=new", "mounted=new")
}

// TestForeignGroupGetsNothing: if a replacement cannot have the group of the old file, its own
// group does not get the old group's permissions.
func TestForeignGroupGetsNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a file of a group that it then is not in")
	}
	const group = 12345
	dir := planted(t, "f=old", "own=x")
	name, own := filepath.Join(dir, "f"), filepath.Join(dir, "own")
	give(t, dir)
	if err := os.Chown(name, nobody, group); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o664); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		if err := os.Chown(own, -1, group); !errors.Is(err, unix.EPERM) {
			t.Fatalf("a file can be given to any group: %v", err)
		}
		h, err := OpenWrite(name, WriteOptions{Atomic: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		t.Fatal(err)
	}
	if st.Gid == group {
		t.Error("the replacement has the foreign group")
	}
	wantMode(t, name, 0o604)
}

func BenchmarkWriteFile(b *testing.B) {
	name := filepath.Join(b.TempDir(), "f")
	data := make([]byte, 32<<20)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := WriteFile(name, data, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
