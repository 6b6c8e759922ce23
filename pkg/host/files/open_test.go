package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// withoutOpenat2 runs a test twice: as usual, and as if the system lacked openat2.
func withoutOpenat2(t *testing.T, test func(t *testing.T)) {
	t.Run("openat2", test)
	t.Run("by components", func(t *testing.T) {
		before := noOpenat2.Swap(true)
		defer noOpenat2.Store(before)
		test(t)
	})
}

// TestNoFollow tests all five operations, with a link at every position of the path.
func TestNoFollow(t *testing.T) {
	no := Options{NoFollow: true}
	operations := map[string]func(name string) error{
		"read": func(name string) error {
			f, _, err := OpenRegular(name, no)
			if err == nil {
				_ = f.Close()
			}
			return err
		},
		"write":  func(name string) error { return WriteFile(name, []byte("new"), no) },
		"create": func(name string) error { return CreateDirectory(name, false, no) },
		"create all": func(name string) error {
			return CreateDirectory(name, true, no)
		},
		"stat":   func(name string) error { _, err := Stat(name, no); return err },
		"remove": func(name string) error { return Remove(t.Context(), name, RemoveOptions{Options: no}) },
		"remove all": func(name string) error {
			return Remove(t.Context(), name, RemoveOptions{Options: no, Recursive: true, Force: true})
		},
		"replace": func(name string) error {
			h, err := OpenWrite(name, WriteOptions{Options: no, Atomic: true})
			if err == nil {
				_ = h.Abort()
			}
			return err
		},
		"replace at once": func(name string) error {
			h, err := OpenWrite(name, WriteOptions{Options: no})
			if err == nil {
				_ = h.Abort()
			}
			return err
		},
	}
	tree := []string{"d", "d/s", "d/f=x", "d/lf -> f", "l -> d", "dang -> none", "up -> .."}
	withoutOpenat2(t, func(t *testing.T) {
		for what, do := range operations {
			for _, name := range []string{"l", "dang", "d/lf", "l/f", "l/s", "l/none", "l/none/x", "dang/x", "l/s/none", "up/x/y"} {
				dir := planted(t, tree...)
				before := snapshot(t, dir)
				if err := do(filepath.Join(dir, name)); !errors.Is(err, ErrSymlink) || err.Error() != "path contains a symbolic link" {
					t.Errorf(`%s %s: got error %v; want %v, "path contains a symbolic link"`, what, name, err, ErrSymlink)
				}
				wantTree(t, dir, before...)
			}
		}
	})
}

func TestNoFollowWithoutLinks(t *testing.T) {
	no := Options{NoFollow: true}
	withoutOpenat2(t, func(t *testing.T) {
		dir := planted(t, "d", "d/f=x", "full/x", "l -> d")
		in := func(name string) string { return filepath.Join(dir, name) }
		if m, err := Stat(in("d/f"), no); err != nil || !m.IsFile || m.IsSymlink || m.Size != 1 {
			t.Errorf("stat: %+v, %v", m, err)
		}
		if m, err := Stat("/", no); err != nil || !m.IsDirectory {
			t.Errorf("stat of the root: %+v, %v", m, err)
		}
		if err := WriteFile(in("d/new"), []byte("new"), no); err != nil {
			t.Error(err)
		}
		wantContents(t, in("d/new"), "new")
		f, size, err := OpenRegular(in("d/new"), no)
		if err != nil || size != 3 {
			t.Fatal(size, err)
		}
		_ = f.Close()
		if err := CreateDirectory(in("d/a/b/c"), true, no); err != nil {
			t.Error(err)
		}
		if err := CreateDirectory(in("d/a/b/c"), true, no); err != nil {
			t.Error(err)
		}
		wantError(t, "again", CreateDirectory(in("d/a/b/c"), false, no), unix.EEXIST, in("d/a/b/c"))
		wantError(t, "below nothing", CreateDirectory(in("d/x/y"), false, no), unix.ENOENT, in("d/x/y"))
		wantError(t, "on a file", CreateDirectory(in("d/f"), true, no), unix.EEXIST, in("d/f"))
		wantError(t, "below a file", CreateDirectory(in("d/f/x/y"), true, no), unix.ENOTDIR, in("d/f/x/y"))
		wantError(t, "the root", CreateDirectory("/", false, no), unix.EEXIST, "/")
		if err := CreateDirectory("/", true, no); err != nil {
			t.Error(err)
		}
		_, err = Stat(in("none"), no)
		wantError(t, "missing", err, unix.ENOENT, in("none"))
		_, err = Stat(in("d/f/x"), no)
		wantError(t, "below a file", err, unix.ENOTDIR, in("d/f/x"))
		// Remove removes the links in the tree, and not their targets.
		plant(t, in("full/x"), "out -> ../../d", "f=")
		if err := Remove(t.Context(), in("full"), RemoveOptions{Options: no, Recursive: true}); err != nil {
			t.Error(err)
		}
		wantTree(t, dir, "d/", "d/a/", "d/a/b/", "d/a/b/c/", "d/f=x", "d/new=new", "l -> d")
	})
}

// TestForbiddenFileIsNotAMissingOpenat2: EPERM for a file does not mean that a seccomp filter
// blocks openat2.
func TestForbiddenFileIsNotAMissingOpenat2(t *testing.T) {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	testutil.Need(t, "openat2", err, unix.ENOSYS, unix.EPERM)
	_ = unix.Close(fd)
	asNobody(t, func() {
		// O_NOATIME gives EPERM to users who do not own the file.
		_, err := openNoFollow(unix.AT_FDCWD, "/proc/version", unix.O_RDONLY|unix.O_NOATIME|unix.O_CLOEXEC, 0)
		if err != unix.EPERM {
			t.Errorf("%v, want %v", err, unix.EPERM)
		}
	})
	if noOpenat2.Load() {
		t.Error("openat2 is taken to be missing")
	}
}

func TestOpenRegular(t *testing.T) {
	dir := planted(t, "d", "f=text", "empty=", "l -> f", "ll -> l", "dang -> none", "loop -> loop", "p|")
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, want := range map[string]string{"f": "text", "empty": "", "ll": "text"} {
		f, size, err := OpenRegular(in(name), Options{})
		if err != nil || size != int64(len(want)) {
			t.Errorf("%s: %d bytes, %v", name, size, err)
			continue
		}
		text, err := io.ReadAll(f)
		if err != nil || string(text) != want {
			t.Errorf("%s: got text %q, error %v; want no error, text %q", name, text, err, want)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	for name, want := range map[string]error{
		in("d"): ErrNotFile, in("p"): ErrNotFile, "/dev/null": ErrNotFile, "/dev/zero": ErrNotFile,
		in("dang"): unix.ENOENT, in("none"): unix.ENOENT, in("loop"): unix.ELOOP, in("f/x"): unix.ENOTDIR,
	} {
		_, _, err := OpenRegular(name, Options{})
		wantError(t, name, err, want, name)
		if want == ErrNotFile && err.Error() != "path `"+name+"` is not a file" {
			t.Errorf("%s: got error %v, want %v", name, err, "path `"+name+"` is not a file")
		}
	}
	for _, name := range []string{"/proc/version", "/proc/self/status", "/proc/1/status"} {
		f, _, err := OpenRegular(name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if text, err := io.ReadAll(f); err != nil || len(text) == 0 {
			t.Errorf("%s: got %q, error %v; want some text", name, text, err)
		}
	}
}

// TestFilesOfProcessesAreRefused: through /proc, a request cannot read a process's memory, its
// environment or its open files, whatever the spelling of the path.
func TestFilesOfProcessesAreRefused(t *testing.T) {
	secret, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	link := t.TempDir() + "/link"
	if err := os.Symlink("/proc/self/environ", link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"/proc/self/environ", "/proc/self/maps", "/proc/self/mem", "/proc/self/cmdline", "/proc/thread-self/environ", "/proc/1/environ",
		fmt.Sprintf("/proc/%d/maps", os.Getppid()), fmt.Sprintf("/proc/self/task/%d/environ", unix.Gettid()), "/proc/self/../self/environ", link,
		fmt.Sprintf("/proc/self/fd/%d", secret.Fd()), fmt.Sprintf("/dev/fd/%d", secret.Fd()), "/proc/self/root" + secret.Name(), "/proc/self/exe",
	} {
		for _, o := range []Options{{}, {NoFollow: true}} {
			f, _, err := OpenRegular(name, o)
			if err == nil {
				_ = f.Close()
			}
			isErr := errors.Is(err, ErrProcess) || o.NoFollow && errors.Is(err, ErrSymlink) ||
				errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) // of another user's process
			if !isErr {
				t.Errorf("%s, no follow %v: got %v, want %v", name, o.NoFollow, err, ErrProcess)
			}
		}
	}
	for _, name := range []string{"environ", "maps", "mem"} {
		err := Copy(t.Context(), "/proc/self/"+name, t.TempDir()+"/copy", false)
		wantError(t, "copy "+name, err, ErrProcess, "/proc/self/"+name)
	}
}

// TestReadsDoNotWait: a read does not wait for data that does not exist yet. Scenario: a client
// reads /proc/kmsg a thousand times, and each read occupies a thread.
func TestReadsDoNotWait(t *testing.T) {
	name := t.TempDir() + "/f"
	if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, _, err := OpenRegular(name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		if flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
			t.Errorf("got flags %#x, %v; want O_NONBLOCK", flags, err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(f); err != nil || len(text) == 0 {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestOpenRegularSocket(t *testing.T) {
	name := filepath.Join(planted(t), "s")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		t.Fatal(err)
	}
	_, _, err = OpenRegular(name, Options{})
	wantError(t, "read", err, ErrNotFile, "")
	_, err = OpenWrite(name, WriteOptions{})
	wantError(t, "write", err, ErrNotFile, "")
}

func TestOpenRegularLimit(t *testing.T) {
	name := filepath.Join(planted(t, "f="), "f")
	if err := os.Truncate(name, MaxReadFile); err != nil {
		t.Fatal(err)
	}
	f, size, err := OpenRegular(name, Options{})
	if err != nil || size != MaxReadFile {
		t.Fatal(size, err)
	}
	_ = f.Close()
	if err := os.Truncate(name, MaxReadFile+1); err != nil {
		t.Fatal(err)
	}
	_, _, err = OpenRegular(name, Options{})
	if err != ErrTooLarge || err.Error() != "file is too large to read: limit is 536870912 bytes" {
		t.Error(err)
	}
	h, err := OpenRead(name)
	if err != nil {
		t.Fatalf("a handle has no limit: %v", err)
	}
	_ = h.Close()
}

func TestReadHandle(t *testing.T) {
	dir := planted(t, "f=0123456789")
	name := filepath.Join(dir, "f")
	h, err := OpenRead(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(name); err != nil { // it reads the file that it opened
		t.Fatal(err)
	}
	for _, tt := range []struct {
		offset uint64
		length int
		want   string
		eof    bool
	}{
		{0, 4, "0123", false}, {8, 4, "89", true}, {8, 2, "89", false}, {10, 2, "", true},
		{100, 1, "", true}, {0, 10, "0123456789", false}, {0, 11, "0123456789", true}, {math.MaxInt64 - 1, 1, "", true},
	} {
		b := make([]byte, tt.length)
		n, eof, err := h.ReadAt(b, tt.offset)
		if err != nil || string(b[:n]) != tt.want || eof != tt.eof {
			t.Errorf("%d at %d: %q, %v, %v", tt.length, tt.offset, b[:n], eof, err)
		}
	}
	for _, offset := range []uint64{math.MaxInt64, math.MaxUint64} {
		_, _, err := h.ReadAt(make([]byte, 1), offset)
		wantError(t, "beyond", err, unix.EINVAL, name)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := h.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
	if _, _, err := h.ReadAt(make([]byte, 1), 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("read after the end: %v", err)
	}
}

func TestCancelledContext(t *testing.T) {
	dir := planted(t, "d/s", "d/f=x", "d/l -> f")
	before := snapshot(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := filepath.Join(dir, "d")
	_, readErr := ReadDirectory(ctx, d, false)
	_, walkErr := Walk(ctx, d, WalkOptions{MaxDirectories: 9, MaxEntries: 9})
	for what, err := range map[string]error{
		"read": readErr, "walk": walkErr,
		"remove": Remove(ctx, d, RemoveOptions{Recursive: true, Force: true}),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got error %v, want %v", what, err, context.Canceled)
		}
	}
	wantTree(t, dir, before...)
	for _, source := range []string{d, filepath.Join(d, "f")} {
		if err := Copy(ctx, source, filepath.Join(t.TempDir(), "c"), true); !errors.Is(err, context.Canceled) {
			t.Errorf("copy %s: %v", source, err)
		}
	}
}
