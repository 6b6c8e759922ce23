package initproc

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// TestCloneIntoCgroup: if cgroups are writable, the init starts in the given cgroup. Otherwise it
// starts elsewhere, if that is permitted and the cgroup has no limits.
func TestCloneIntoCgroup(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, cgroup := range []int{0, int(null.Fd())} {
		c := &Processes{Cgroup: cgroup, Init: New(), Command: New(), Status: -1}
		c.Init.Do("end", "", unix.SYS_EXIT_GROUP, Val(3))
		pid, errno := c.Start()
		if errno != 0 {
			t.Fatalf("descriptor %s: %v", strconv.Itoa(cgroup), errno)
		}
		if status, err := Wait(pid); err != nil || syscall.WaitStatus(status).ExitStatus() != 3 {
			t.Errorf("got status %v, error %v; want no error, syscall.WaitStatus(status).ExitStatus() 3", status, err)
		}
	}
	c := &Processes{Cgroup: int(null.Fd()), InCgroup: true, Init: New(), Command: New(), Status: -1}
	if pid, errno := c.Start(); errno == 0 {
		t.Errorf("process %d starts outside of the cgroup that limits it", pid)
	}
}

// TestForksWhileTheRuntimeIsAtWork: a child works in whatever state the launcher's other threads, heap and garbage
// collector were at the fork.
func TestForksWhileTheRuntimeIsAtWork(t *testing.T) {
	stop := make(chan struct{})
	var busy sync.WaitGroup
	for range 4 {
		busy.Go(func() {
			var list [][]byte
			for {
				select {
				case <-stop:
					return
				default:
				}
				if list = append(list, make([]byte, 4<<10)); len(list) > 100 {
					list = nil
				}
			}
		})
	}
	busy.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	})
	defer busy.Wait()
	defer close(stop)
	file := filepath.Join(t.TempDir(), "script")
	// The kernel does not know the format of this file, so the shell executes it.
	if err := testutil.WriteProgram(file, []byte("exit 7\n")); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range testutil.Rounds(20, 100, 300) {
		e, err := PrepareExec([]string{file}, nil, "script", -1)
		if err != nil {
			t.Fatal(err)
		}
		c := &Processes{Init: New(), Command: New(), Exec: e, Status: -1}
		c.Init.Look("/", rootOf(t).Dev, rootOf(t).Ino)
		pid, errno := c.Start()
		if errno != 0 {
			t.Fatal(errno)
		}
		if status, err := Wait(pid); err != nil || status.ExitStatus() != 7 {
			t.Fatalf("got %v, %v, want exit status 7", status, err)
		}
	}
}

func rootOf(t *testing.T) (st unix.Stat_t) {
	t.Helper()
	if err := unix.Stat("/", &st); err != nil {
		t.Fatal(err)
	}
	return st
}

// TestRunAlone: RunAlone returns the failure of a step from the child, whether namespaces and
// descriptors are shared or not.
func TestRunAlone(t *testing.T) {
	for _, flags := range []uintptr{0, unix.CLONE_FILES} {
		p := New()
		p.Do("end", "", unix.SYS_EXIT_GROUP, Val(0))
		if err := RunAlone(p, flags); err != nil {
			t.Errorf("flags %#x: got %v, want no error", flags, err)
		}
		p = New()
		p.Get("open", "/none", unix.SYS_OPENAT, CwdFD, p.Text("/none"), Val(unix.O_PATH), Val(0))
		if err := RunAlone(p, flags); !errors.Is(err, unix.ENOENT) || err.Error() != "open /none: No such file or directory (os error 2)" {
			t.Errorf("flags %#x: got %v, want ENOENT", flags, err)
		}
		p = New()
		p.Do("end", "", unix.SYS_EXIT_GROUP, Val(3))
		if err := RunAlone(p, flags); err == nil {
			t.Errorf("flags %#x: got no error for an exit code", flags)
		}
	}
}
