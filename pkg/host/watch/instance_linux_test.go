package watch

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// instances counts the inotify instances of this process.
func instances(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.Contains(to, "inotify") {
			n++
		}
	}
	return n
}

// TestWatchesShareAnInstance: watches of the same directory in one instance get all changes of it,
// also those that another watch has read, and go on when the other watch ends.
func TestWatchesShareAnInstance(t *testing.T) {
	d := directory(t)
	must(t, os.Mkdir(d+"/x", 0o755))
	before := instances(t)
	var in Instance
	open := func(path string) (w *Tree, end func()) {
		ending, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		must(t, err)
		w, err = OpenTree(context.Background(), &in, path, true, ending)
		must(t, err)
		return w, func() {
			w.Close()
			_ = unix.Close(ending)
		}
	}
	all, endAll := open(d)
	part, endPart := open(d + "/x")
	missing := New(&in, []string{d + "/x/new"}, "")
	if missing == nil {
		t.Fatal("the missing path is not watched")
	}
	if got := instances(t) - before; got != 1 {
		t.Errorf("got %d inotify instances, want 1", got)
	}
	must(t, write(d+"/x/a"))
	expect(t, all, d, "created x/a")
	expect(t, part, d, "created x/a")
	if changed(t, missing) {
		t.Error("the missing path is reported, although it is still missing")
	}
	missing.Close()
	endPart()
	must(t, write(d+"/x/b"), os.Mkdir(d+"/x/y", 0o755))
	expect(t, all, d, "created x/b", "created x/y/")
	part, endPart = open(d + "/x/y")
	endAll()
	must(t, write(d+"/x/y/c"))
	expect(t, part, d, "created x/y/c")
	must(t, os.RemoveAll(d+"/x/y"))
	if got := told(t, part, d); !strings.HasPrefix(got[len(got)-1], "ended: ") {
		t.Errorf("got %q, want the end of the watch", got)
	}
	if in.watched != 0 {
		t.Errorf("after the removal of the last directory got %d watched ones, want none", in.watched)
	}
	endPart()
	if got := instances(t) - before; got != 0 {
		t.Errorf("at the end got %d inotify instances, want none", got)
	}
}

// TestUnreadWatchLosesOnlyItsOwn: a watch that reads nothing, while another one of its instance
// reads, loses its events beyond the limit, and says so.
func TestUnreadWatchLosesOnlyItsOwn(t *testing.T) {
	d := directory(t)
	var in Instance
	members := make([]*member, 2)
	for i := range members {
		m, err := in.join()
		must(t, err)
		defer m.leave()
		members[i] = m
		fd, err := unix.Open(d, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		must(t, err)
		_, err = m.add(fd, entryMask)
		must(t, errors.Join(err, unix.Close(fd)))
	}
	reader, idle := members[0], members[1]
	name := d + "/" + strings.Repeat("n", 200)
	got := 0
	for !idle.lost {
		must(t, write(name), os.Remove(name))
		for {
			b, err := reader.read()
			must(t, err)
			if len(b) == 0 {
				break
			}
			got += len(b)
		}
		if got > 2*maxPendingBytes {
			t.Fatalf("after %d bytes of events the idle watch has lost none", got)
		}
	}
	if b, err := idle.read(); err != nil || string(b) != string(overflowEvent()) {
		t.Errorf("got %q, error %v; want an overflow", b, err)
	}
	if b, err := idle.read(); err != nil || len(b) != 0 {
		t.Errorf("after the overflow got %q, error %v; want nothing", b, err)
	}
	must(t, write(name))
	if b, err := idle.read(); err != nil || len(b) == 0 {
		t.Errorf("after the overflow a change gave %q, error %v; want an event", b, err)
	}
}

// TestDirectoriesOfAnInstance: a client cannot take more memory by watching the same tree often.
func TestDirectoriesOfAnInstance(t *testing.T) {
	in := Instance{}
	m, err := in.join()
	must(t, err)
	defer m.leave()
	in.watched = maxInstanceDirectories
	if _, err := m.add(unix.AT_FDCWD, entryMask); !errors.As(err, new(*LimitError)) {
		t.Errorf("beyond the limit: got error %v, want a LimitError", err)
	}
}
