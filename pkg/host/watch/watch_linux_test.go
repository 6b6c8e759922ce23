package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// changed reports whether the events so far are a change. The kernel queues an
// event before the call that caused it returns, so the test need not wait.
func changed(t *testing.T, w *Watch) bool {
	t.Helper()
	for {
		n, err := unix.Poll(w.events.sources(), 0)
		switch {
		case err != nil:
			t.Fatal(err)
		case n == 0:
			return false
		case w.readEvents():
			return true
		}
	}
}

func begin(t *testing.T, missing []string, present string) *Watch {
	t.Helper()
	w := New(new(Instance), missing, present)
	if w == nil {
		t.Fatalf("%q, %q cannot be watched", missing, present)
	}
	t.Cleanup(w.Close)
	return w
}

func directory(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(path string) error { return os.WriteFile(path, []byte("x"), 0o644) }

func TestChanges(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(d string) error
		missing string
		present string
		change  func(d string) error
		want    bool
	}{
		{name: "a file appears", missing: "a", change: func(d string) error { return write(d + "/a") }, want: true},
		{name: "a directory on the way", missing: "a/b/c", change: func(d string) error { return os.Mkdir(d+"/a", 0o755) }, want: true},
		{name: "a link that leads nowhere", missing: "a", change: func(d string) error { return os.Symlink("none", d+"/a") }, want: true},
		{name: "a name that differs in case", missing: "abc", change: func(d string) error { return write(d + "/ABC") }, want: true},
		{name: "a sibling of a name outside ASCII", missing: "ä", change: func(d string) error { return write(d + "/b") }, want: true},
		{name: "a sibling", missing: "a", change: func(d string) error { return write(d + "/aa") }},
		{
			name: "moved in", missing: "a/b", prepare: func(d string) error { return os.MkdirAll(d+"/t/b", 0o755) },
			change: func(d string) error { return os.Rename(d+"/t", d+"/a") }, want: true,
		},
		{
			name: "there and gone", missing: "a",
			change: func(d string) error { _ = write(d + "/a"); return os.Remove(d + "/a") }, want: true,
		},
		{
			name: "a parent is removed", missing: "p/x", prepare: func(d string) error { return os.Mkdir(d+"/p", 0o755) },
			change: func(d string) error { return os.Remove(d + "/p") }, want: true,
		},
		{
			name: "a parent changes its mode", missing: "p/x", prepare: func(d string) error { return os.Mkdir(d+"/p", 0o755) },
			change: func(d string) error { return os.Chmod(d+"/p", 0o700) }, want: true,
		},
		{
			name: "the present file is written", missing: "x", present: "p", prepare: func(d string) error { return write(d + "/p") },
			change: func(d string) error { return write(d + "/p") }, want: true,
		},
		{
			name: "the present file is written by another name", missing: "x", present: "p",
			prepare: func(d string) error { _ = write(d + "/p"); return os.Link(d+"/p", d+"/q") },
			change:  func(d string) error { return write(d + "/q") }, want: true,
		},
		{
			name: "the present file is replaced", missing: "x", present: "p",
			prepare: func(d string) error { _ = write(d + "/p"); return write(d + "/q") },
			change:  func(d string) error { return os.Rename(d+"/q", d+"/p") }, want: true,
		},
		{
			name: "the present file is removed", missing: "x", present: "p", prepare: func(d string) error { return write(d + "/p") },
			change: func(d string) error { return os.Remove(d + "/p") }, want: true,
		},
		{
			name: "the present file is read", missing: "x", present: "p", prepare: func(d string) error { return write(d + "/p") },
			change: func(d string) error { _, err := os.ReadFile(d + "/p"); return err },
		},
		{
			name: "an entry of the present directory", missing: "x", present: "p", prepare: func(d string) error { return os.Mkdir(d+"/p", 0o755) },
			change: func(d string) error { return write(d + "/p/inside") },
		},
		{
			name: "a parent of the present file is moved", missing: "x", present: "p/q",
			prepare: func(d string) error { _ = os.Mkdir(d+"/p", 0o755); return write(d + "/p/q") },
			change:  func(d string) error { return os.Rename(d+"/p", d+"/r") }, want: true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := directory(t)
			if c.prepare != nil {
				if err := c.prepare(d); err != nil {
					t.Fatal(err)
				}
			}
			present := ""
			if c.present != "" {
				present = filepath.Join(d, c.present)
			}
			w := begin(t, []string{filepath.Join(d, c.missing)}, present)
			if err := c.change(d); err != nil {
				t.Fatal(err)
			}
			if got := changed(t, w); got != c.want {
				t.Errorf("reported: %v, want %v", got, c.want)
			}
		})
	}
}

func TestMountTable(t *testing.T) {
	d := directory(t)
	if err := os.Mkdir(d+"/m", 0o755); err != nil {
		t.Fatal(err)
	}
	w := begin(t, []string{d + "/x"}, "")
	err := unix.Mount("watch-test", d+"/m", "tmpfs", 0, "size=4k")
	testutil.Need(t, "permission to mount", err, unix.EPERM, unix.EACCES)
	defer func() { _ = unix.Unmount(d+"/m", unix.MNT_DETACH) }()
	if !w.Wait() {
		t.Error("a mount is not reported")
	}
}

func TestRefused(t *testing.T) {
	d := directory(t)
	for _, err := range []error{
		write(d + "/file"), os.Mkdir(d+"/dir", 0o755), os.Symlink("dir", d+"/link"), os.Symlink("none", d+"/dangling"), write(d + "/dir/p"),
		os.Mkdir(d+"/fifos", 0o755), unix.Mkfifo(d+"/fifo", 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	below := func(names ...string) []string {
		var paths []string
		for _, name := range names {
			paths = append(paths, filepath.Join(d, name))
		}
		return paths
	}
	deep := func(n int) []string { return []string{"/none-watch/" + strings.Repeat("x/", n) + "y"} }
	many := make([]string, maxMissing+1)
	for i := range many {
		many[i] = d + "/m"
	}
	for i, c := range []struct {
		missing []string
		present string
		want    bool
	}{
		{nil, "", false},
		{nil, d + "/file", false},
		{below("file"), "", false},
		{below("dangling"), "", false},
		{below("none", "dir"), "", false},
		{below("none"), d + "/nothing", false},
		{below("none"), d + "/none", false},
		{below("none"), d + "/link", false},
		{below("none"), d + "/link/p", false},
		{below("none"), d + "/dir/p", true},
		{below("none"), d + "/fifo", true},
		{below("dir/p/x"), "", false},
		{below("link/x"), "", false},
		{below("fifo/x"), "", false},
		{below("dir/x", "dir/x/y"), d + "/dir", true},
		{[]string{"/"}, "", false},
		{[]string{"/proc/none/x"}, "", false},
		{[]string{"/sys/none"}, "", false},
		{many[:maxMissing], "", true},
		{many, "", false},
		{deep(maxDirectories - 2), "", true},
		{deep(maxDirectories - 1), "", false},
	} {
		w := New(new(Instance), c.missing, c.present)
		if (w != nil) != c.want {
			t.Errorf("%d: %.200q, %q: watched %v, want %v", i, c.missing, c.present, w != nil, c.want)
		}
		if w != nil {
			w.Close()
		}
	}
}

func TestWait(t *testing.T) {
	d := directory(t)
	w := begin(t, []string{d + "/x"}, "")
	told := make(chan bool)
	go func() { told <- w.Wait() }()
	if err := write(d + "/x"); err != nil {
		t.Fatal(err)
	}
	if !<-told {
		t.Error("a change is not reported")
	}
}

func TestClose(t *testing.T) {
	d := directory(t)
	before := descriptors(t)
	w := begin(t, []string{d + "/x"}, "")
	told := make(chan bool)
	go func() { told <- w.Wait() }()
	w.Close()
	if <-told {
		t.Error("a closed watch reports a change")
	}
	w.Close()
	idle := New(new(Instance), []string{d + "/x"}, "")
	idle.Close()
	if idle.Wait() {
		t.Error("a watch that was closed before it waited reports a change")
	}
	if New(new(Instance), []string{"/proc/none/x"}, "") != nil {
		t.Error("/proc can be watched")
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors are open, %d were", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// FuzzChanges passes arbitrary events to a watch, in the format of the kernel.
func FuzzChanges(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, unix.SizeofInotifyEvent))
	f.Add([]byte("\x01\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00abc\x00"))
	w := &Watch{nodes: map[int32]*node{1: {children: map[string]*node{"a": {}}}}}
	f.Fuzz(func(_ *testing.T, b []byte) { w.changes(b) })
}

func TestLostEvents(t *testing.T) {
	w := &Watch{nodes: map[int32]*node{1: {children: map[string]*node{"a": {}}}}}
	event := func(wd byte, name string) []byte {
		return fmt.Appendf(nil, "%c\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00%c\x00\x00\x00%s", wd, len(name), name)
	}
	for _, c := range []struct {
		events []byte
		want   bool
	}{
		{nil, false},
		{event(1, "b\x00\x00\x00"), false},
		{append(event(1, "b\x00"), event(1, "a\x00\x00")...), true},
		{event(1, ""), true},
		{event(2, "b\x00"), true},      // unknown, such as the -1 of an overflow
		{event(1, "b\x00")[:17], true}, // cut
		{event(1, "")[:7], true},
	} {
		if got := w.changes(c.events); got != c.want {
			t.Errorf("%q: got %v, want %v", c.events, got, c.want)
		}
	}
}
