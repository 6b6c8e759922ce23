package shortage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// hungRequests exceeds the number of threads of the short machine. fewHungRequests is lower than the number of
// concurrent file requests of the server. Both are numbers of requests for files that hang.
const (
	hungRequests    = 2 * mostProcesses
	fewHungRequests = 100
)

// TestHungFiles: the server of a file system does not answer, and clients request more of its files than the machine
// has threads. The exec-server works on some of the requests, and other file requests wait. It continues, starts
// processes, and answers requests that are not about files.
func TestHungFiles(t *testing.T) {
	for _, s := range shortages {
		t.Run(s.name, func(t *testing.T) {
			w := newWorld(t)
			hung := w.hang()
			w.serve(s.limit)
			l := w.busy(false)
			defer l.stop()
			c := w.client()
			kept := w.start(c, "/bin/cat")
			h := w.ask(hung, hungRequests)
			l.awaitProgress()
			w.awaitStart(c)
			h.unanswered()
			w.answers(kept)
			hung.end()
			h.await()
			l.stop()
			w.lives()
			t.Logf("the server has %s, and did %v", w.threads(), l.counts())
		})
	}
}

// TestFewHungFiles: if fewer requests hang, the server answers requests for other files meanwhile.
func TestFewHungFiles(t *testing.T) {
	w := newWorld(t)
	hung := w.hang()
	w.serve(func(*world, int) string { return "" })
	l := w.busy(true)
	defer l.stop()
	h := w.ask(hung, fewHungRequests)
	l.awaitProgress()
	h.unanswered()
	hung.end()
	h.await()
	l.stop()
	w.lives()
	t.Logf("the server has %s, and did %v", w.threads(), l.counts())
}

// hungFiles is a file system whose server does not answer.
type hungFiles struct {
	t      *testing.T
	path   string
	server int // a descriptor of /dev/fuse
	ending sync.Once
}

// hang mounts a file system that hangs, in a mount namespace of the test's thread. The server inherits the
// namespace when it is started. Other tests and programs do not see the mount.
func (w *world) hang() *hungFiles {
	w.t.Helper()
	runtime.LockOSThread() // not unlocked: the thread ends with the goroutine of the test
	err := unix.Unshare(unix.CLONE_NEWNS)
	testutil.Need(w.t, "right to make a mount namespace", err, fs.ErrPermission)
	harness.Must(w.t, unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	h := &hungFiles{t: w.t, path: filepath.Join(w.Dir, "hung")}
	harness.Must(w.t, os.Mkdir(h.path, 0o755))
	h.server, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	testutil.Need(w.t, "FUSE", err, fs.ErrNotExist, fs.ErrPermission, unix.ENODEV, unix.ENXIO)
	w.t.Cleanup(h.end)
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", h.server)
	err = unix.Mount("hung", h.path, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options)
	testutil.Need(w.t, "right to mount FUSE", err, fs.ErrPermission, unix.ENODEV)
	return h
}

// end ends the file system, so that hanging calls fail. The test's goroutine must call it, because only its thread
// has the mount. Without it, the directory could not be removed.
func (h *hungFiles) end() {
	h.ending.Do(func() {
		_ = unix.Close(h.server)
		_ = unix.Unmount(h.path, unix.MNT_DETACH)
	})
}

// asked are requests for files that hang.
type asked struct {
	w        *world
	requests int
	wg       sync.WaitGroup
	answered atomic.Int64
}

// ask makes clients request files of a file system.
func (w *world) ask(hung *hungFiles, requests int) *asked {
	w.t.Helper()
	a := &asked{w: w, requests: requests}
	const clients = 5
	for range clients {
		c := w.client()
		for i := range requests / clients {
			a.wg.Go(func() {
				_, err := c.FS().ReadFile(w.t.Context(), filepath.Join(hung.path, fmt.Sprint(i)))
				if err == nil || errors.Is(err, context.Canceled) {
					w.t.Errorf("a file that hangs: %v", err)
				}
				a.answered.Add(1)
			})
		}
	}
	return a
}

// unanswered checks that the requests hang.
func (a *asked) unanswered() {
	a.w.t.Helper()
	if n := a.answered.Load(); n > 0 {
		a.w.t.Errorf("%d requests about files that hang were answered", n)
	}
}

// await waits for the answers.
func (a *asked) await() {
	a.w.t.Helper()
	harness.Eventually(a.w.t, "request that is not answered", func() []string {
		if n := a.answered.Load(); int(n) < a.requests {
			return []string{fmt.Sprintf("%d of %d were answered", n, a.requests)}
		}
		return nil
	})
	a.wg.Wait()
}
