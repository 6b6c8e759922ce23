package mediate

import (
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// TestPathsWithParentsWhileFilesAreRenamed: the kernel returns EAGAIN for a path with ".." if any
// process renames a file meanwhile. A command must not get this error.
func TestPathsWithParentsWhileFilesAreRenamed(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"/socket", "/a"} {
		if err := os.WriteFile(dir+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stop atomic.Bool
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; !stop.Load(); i++ {
			_ = os.Rename(dir+"/"+[]string{"a", "b"}[i%2], dir+"/"+[]string{"b", "a"}[i%2])
		}
	}()
	defer func() { stop.Store(true); <-stopped }()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range testutil.Rounds(2000, 10_000, 10_000) {
		fd, err := openFor(unix.Gettid(), dir+"/../"+filepath.Base(dir)+"/../"+filepath.Base(dir)+"/socket")
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(fd)
	}
}
