package broker

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTheRestOfAPathThroughADescriptorIsRelative: /dev/fd/5//etc is a name below the descriptor, and not /etc.
func TestTheRestOfAPathThroughADescriptorIsRelative(t *testing.T) {
	for name, want := range map[string]struct {
		number int
		rest   string
		ok     bool
	}{
		"/dev/stdout": {1, "", true}, "/dev/fd/5": {5, "", true}, "/dev/fd/5/": {5, ".", true}, "/dev/fd/5//": {5, ".", true},
		"/proc/self/fd/5/a/b": {5, "a/b", true}, "/dev/fd/5//etc/passwd": {5, "etc/passwd", true}, "/proc/thread-self/fd/5///etc": {5, "etc", true},
		"/dev/fd/05": {}, "/dev/fd/-1": {}, "/dev/fd/": {}, "/proc/self/cwd/x": {}, "/proc/self/fd": {}, "dev/fd/5": {},
	} {
		number, rest, ok := (&caller{}).ownDescriptor(name)
		if number != want.number || rest != want.rest || ok != want.ok {
			t.Errorf("%s: got %d, %q, %v, want %+v", name, number, rest, ok, want)
		}
	}
}

// TestRemovedSharedFilesAreForgotten: a held file keeps its memory.
func TestRemovedSharedFilesAreForgotten(t *testing.T) {
	s := sharedFiles{held: make(map[inode]int)}
	dir := t.TempDir()
	for _, name := range []string{"stays", "goes"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := s.add(int(f.Fd())); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "goes")); err != nil {
		t.Fatal(err)
	}
	n := named{dir: unix.AT_FDCWD, name: filepath.Join(dir, "stays")}
	if s.forget(); len(s.held) != 1 || !s.ownsName(&n) {
		t.Errorf("got %d files, want only the one that has a name", len(s.held))
	}
}
