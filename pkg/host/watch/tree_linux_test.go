package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// openTree watches a path until the end of the test. The kernel queues an event before
// the call that caused it returns, so Next returns all changes that happened before it
// was called.
func openTree(t *testing.T, path string, recursive bool) *Tree {
	t.Helper()
	ending, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	w, err := OpenTree(context.Background(), new(Instance), path, recursive, ending)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Close()
		_ = unix.Close(ending)
	})
	return w
}

// told returns the changes that Next reports for the tree at dir, one event per line.
func told(t *testing.T, w *Tree, dir string) []string {
	t.Helper()
	b, ok := w.Next()
	if !ok {
		t.Fatal("the watch has ended")
	}
	var lines []string
	if b.Overflow {
		lines = append(lines, "overflow")
	}
	names := map[Kind]string{Created: "created", Modified: "modified", Attributes: "attributes", Removed: "removed", Unwatched: "unwatched"}
	for _, e := range b.Events {
		line := names[e.Kind] + " " + strings.TrimPrefix(strings.TrimPrefix(e.Path, dir), "/")
		if e.Directory {
			line += "/"
		}
		lines = append(lines, line)
	}
	if b.Ended != "" {
		lines = append(lines, "ended: "+b.Ended)
	}
	return lines
}

func expect(t *testing.T, w *Tree, dir string, want ...string) {
	t.Helper()
	if got := told(t, w, dir); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("told\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestTreeTells(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(d string) error
		change  func(d string) error
		want    []string
	}{
		{name: "a new file", change: func(d string) error { return write(d + "/a") }, want: []string{"created a"}},
		{
			name: "a file that is written", prepare: func(d string) error { return write(d + "/a") },
			change: func(d string) error { return write(d + "/a") }, want: []string{"modified a"},
		},
		{
			name: "permissions", prepare: func(d string) error { return write(d + "/a") },
			change: func(d string) error { return os.Chmod(d+"/a", 0o600) }, want: []string{"attributes a"},
		},
		{
			name: "removed", prepare: func(d string) error { return write(d + "/a") },
			change: func(d string) error { return os.Remove(d + "/a") }, want: []string{"removed a"},
		},
		{
			name: "renamed", prepare: func(d string) error { return write(d + "/a") },
			change: func(d string) error { return os.Rename(d+"/a", d+"/b") }, want: []string{"removed a", "created b"},
		},
		{
			name: "in a directory below", prepare: func(d string) error { return os.MkdirAll(d+"/x/y", 0o755) },
			change: func(d string) error { return write(d + "/x/y/a") }, want: []string{"created x/y/a"},
		},
		{
			name:   "in directories that are new",
			change: func(d string) error { _ = os.MkdirAll(d+"/x/y", 0o755); return write(d + "/x/y/a") },
			want:   []string{"created x/", "created x/y/", "created x/y/a"},
		},
		{
			name: "a link to a directory is not followed", prepare: func(d string) error { return os.Mkdir(d+"/x", 0o755) },
			change: func(d string) error { return os.Symlink("x", d+"/l") }, want: []string{"created l"},
		},
		{
			name: "a directory with files is renamed", prepare: func(d string) error { _ = os.Mkdir(d+"/x", 0o755); return write(d + "/x/a") },
			change: func(d string) error { return os.Rename(d+"/x", d+"/y") }, want: []string{"removed x/", "created y/", "created y/a"},
		},
		{
			name: "names that are not UTF-8", change: func(d string) error { return write(d + "/\xff\n") }, want: []string{"created \xff\n"},
		},
		{
			name: "there and gone", change: func(d string) error { _ = write(d + "/a"); return os.Remove(d + "/a") },
			want: []string{"created a", "removed a"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := directory(t)
			if c.prepare != nil {
				must(t, c.prepare(d))
			}
			w := openTree(t, d, true)
			must(t, c.change(d))
			expect(t, w, d, c.want...)
		})
	}
}

// TestTreeGoesOn: a moved directory is watched only under its new name. A directory that is removed
// and created again is watched.
func TestTreeGoesOn(t *testing.T) {
	d := directory(t)
	must(t, os.MkdirAll(d+"/x/y", 0o755))
	w := openTree(t, d, true)
	must(t, os.Rename(d+"/x", d+"/z"))
	expect(t, w, d, "removed x/", "created z/", "created z/y/")
	must(t, write(d+"/z/y/a"))
	expect(t, w, d, "created z/y/a")
	must(t, os.RemoveAll(d+"/z/y"))
	expect(t, w, d, "removed z/y/a", "removed z/y/")
	must(t, os.Mkdir(d+"/z/y", 0o755), write(d+"/z/y/b"))
	expect(t, w, d, "created z/y/", "created z/y/b")
	outside := directory(t)
	must(t, os.Rename(d+"/z", outside+"/z"), write(outside+"/z/secret"), write(d+"/last"))
	expect(t, w, d, "removed z/", "created last")
	if len(w.folders) != 1 {
		t.Errorf("%d directories are watched", len(w.folders))
	}
}

func TestTreeOfNames(t *testing.T) {
	d := directory(t)
	must(t, os.Mkdir(d+"/x", 0o755))
	w := openTree(t, d, false)
	must(t, write(d+"/x/a"), write(d+"/b"), os.Chmod(d, 0o700))
	expect(t, w, d, "created b", "attributes /")
}

// TestTreeOfAFile: a file is still watched after it was replaced, as editors do. It is reported
// under the requested path.
func TestTreeOfAFile(t *testing.T) {
	d := directory(t)
	must(t, write(d+"/f"), os.Symlink("f", d+"/l"))
	w := openTree(t, d+"/l", true)
	must(t, write(d+"/other"), write(d+"/f"))
	expect(t, w, d, "modified l")
	must(t, os.Rename(d+"/other", d+"/f"), write(d+"/f"))
	expect(t, w, d, "created l")
	must(t, os.Remove(d+"/f"))
	expect(t, w, d, "removed l")
}

func TestTreeEnds(t *testing.T) {
	for name, end := range map[string]func(d string) error{
		"removed":         func(d string) error { return os.RemoveAll(d + "/p/q") },
		"moved":           func(d string) error { return os.Rename(d+"/p/q", d+"/r") },
		"moved far above": func(d string) error { _ = write(d + "/p/q/f"); return os.Rename(d+"/p", d+"/r") },
	} {
		d := directory(t)
		must(t, os.MkdirAll(d+"/p/q", 0o755))
		w := openTree(t, d+"/p/q", true)
		must(t, end(d))
		t.Run(name, func(t *testing.T) {
			expect(t, w, d, "ended: the directory "+d+"/p/q was moved or removed")
		})
	}
}

// TestTreeOverflow: after the kernel has lost events, the tree is watched again before the overflow
// is reported. This includes directories whose creation event was lost.
func TestTreeOverflow(t *testing.T) {
	d := directory(t)
	w := openTree(t, d, true)
	must(t, write(d+"/a"))
	var c collector
	w.take(&c)
	must(t, os.Mkdir(d+"/lost", 0o755))
	lost := make([]byte, unix.SizeofInotifyEvent)
	lost[0], lost[1], lost[2], lost[3] = 0xff, 0xff, 0xff, 0xff
	lost[5] = unix.IN_Q_OVERFLOW >> 8
	w.decode(&c, lost)
	if len(c.batch.Events) != 0 || !c.batch.Overflow || c.batch.Ended != "" {
		t.Errorf("told %+v", c.batch)
	}
	must(t, write(d+"/lost/b"))
	expect(t, w, d, "created lost/b")
}

func TestTreeUnreadable(t *testing.T) {
	d := directory(t)
	must(t, os.MkdirAll(d+"/closed/below", 0o755), os.Chmod(d+"/closed", 0))
	t.Cleanup(func() { _ = os.Chmod(d+"/closed", 0o755) })
	obeyPermissions(t)
	w := openTree(t, d, true)
	expect(t, w, d, "unwatched closed/")
	must(t, os.Chmod(d+"/closed", 0o755), write(d+"/closed/below/a"))
	expect(t, w, d, "attributes closed/", "created closed/below/", "created closed/below/a")
}

// obeyPermissions makes permissions apply to this test even if root runs it: it removes
// all effective capabilities from the thread, which ends with the test.
func obeyPermissions(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	must(t, unix.Capset(header, &none[0]))
}

func TestTreeRefused(t *testing.T) {
	d := directory(t)
	for path, want := range map[string]string{
		d + "/none":         "No such file or directory (os error 2): " + d + "/none",
		"/proc/self":        ErrSilent.Error() + ": /proc/self",
		"/proc/self/status": ErrSilent.Error() + ": /proc/self/status",
	} {
		if _, err := OpenTree(context.Background(), new(Instance), path, true, 0); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := OpenTree(ctx, new(Instance), d, true, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}

func TestTreeLimits(t *testing.T) {
	for err, want := range map[error]string{
		unix.ENOSPC: "fs.inotify.max_user_watches (now ",
		unix.EMFILE: "fs.inotify.max_user_instances (now ",
	} {
		if got := limitOf("/d", err); !strings.Contains(got.Error(), want) || !errors.As(got, new(*LimitError)) {
			t.Errorf("got error %v, %v; want a text with %q, errors.As(got, new(*LimitError))", err, got, want)
		}
	}
	top := &folder{}
	w := &Tree{folders: map[int32]*folder{0: top}, top: top, todo: make([]*folder, MaxTreeDirectories-2)}
	if err := w.discover(top, "a"); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if err := w.discover(top, "b"); !errors.As(err, new(*LimitError)) {
		t.Errorf("beyond the limit: %v", err)
	}
}

// TestTreeBatches: a new directory with more names than fit into a batch is reported in
// several batches, without a gap.
func TestTreeBatches(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	d, outside := directory(t), directory(t)
	const count = maxBatchEvents + 2*readNames
	must(t, os.Mkdir(outside+"/x", 0o755))
	for i := range count {
		must(t, write(fmt.Sprintf("%s/x/%d", outside, i)))
	}
	w := openTree(t, d, true)
	must(t, os.Rename(outside+"/x", d+"/x"))
	seen := make(map[string]bool)
	for batches := 0; len(seen) < count+1; batches++ {
		lines := told(t, w, d)
		if len(lines) > maxBatchEvents+readNames {
			t.Fatalf("a batch of %d", len(lines))
		}
		for _, line := range lines {
			seen[line] = true
		}
	}
}

func TestTreeClose(t *testing.T) {
	before := descriptors(t)
	var ending [2]int
	must(t, unix.Pipe2(ending[:], unix.O_CLOEXEC))
	w, err := OpenTree(context.Background(), new(Instance), directory(t), true, ending[0])
	must(t, err)
	ended := make(chan bool)
	go func() { _, ok := w.Next(); ended <- ok }()
	must(t, unix.Close(ending[1]))
	if <-ended {
		t.Error("Next of a watch that was ended returned a batch")
	}
	w.Close()
	w.Close()
	if _, ok := w.Next(); ok {
		t.Error("Next after Close returned a batch")
	}
	must(t, unix.Close(ending[0]))
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors are open, %d were", after, before)
	}
}

// TestTreeAlias: a directory that a bind mount shows in two places is watched once, and the second
// place is reported as unwatched. A mount of a directory into itself does not cause an endless
// walk.
func TestTreeAlias(t *testing.T) {
	d := directory(t)
	must(t, os.MkdirAll(d+"/a/inner", 0o755), os.Mkdir(d+"/a/inner/m", 0o755))
	err := unix.Mount(d+"/a", d+"/a/inner/m", "", unix.MS_BIND, "")
	testutil.Need(t, "permission to mount", err, unix.EPERM, unix.EACCES)
	defer func() { _ = unix.Unmount(d+"/a/inner/m", unix.MNT_DETACH) }()
	w := openTree(t, d, true)
	expect(t, w, d, "unwatched a/inner/m/")
	must(t, write(filepath.Join(d, "a/f")))
	expect(t, w, d, "created a/f")
}

// FuzzTreeEvents passes arbitrary events to a tree, in the format of the kernel.
func FuzzTreeEvents(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, unix.SizeofInotifyEvent))
	f.Add([]byte("\x01\x00\x00\x00\x00\x01\x00\x40\x00\x00\x00\x00\x04\x00\x00\x00abc\x00"))
	f.Add([]byte("\x01\x00\x00\x00\x00\x02\x00\x40\x00\x00\x00\x00\x04\x00\x00\x00abc\x00"))
	f.Add([]byte("\xff\xff\xff\xff\x00\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := OpenTree(context.Background(), new(Instance), dir, true, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		var c collector
		w.decode(&c, b)
		for range c.batch.Events {
			if len(c.batch.Events) > len(b) {
				t.Fatal("more events than bytes")
			}
		}
	})
}
