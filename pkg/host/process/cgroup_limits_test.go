package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// These tests check decisions that need no real cgroup. scripts/services tests the kernel's part in
// a guest.

// TestCPUMax: the value for cpu.max is a quota of at least a millisecond in a period of
// at most a second, and their quotient is the limit.
func TestCPUMax(t *testing.T) {
	for millis, want := range map[uint64]string{
		1: "1000 1000000", 9: "9000 1000000", 10: "1000 100000", 200: "20000 100000", 1500: "150000 100000", 1 << 40: "107374182400 100000",
	} {
		if got := cpuMax(millis); got != want {
			t.Errorf("%d thousandths: %q, want %q", millis, got, want)
		}
	}
}

// fakeCgroup makes a directory with the files of a cgroup.
func fakeCgroup(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestAccount: the counters of a cgroup are read. Counters that a kernel lacks are omitted.
func TestAccount(t *testing.T) {
	dir := fakeCgroup(t, map[string]string{
		"memory.events": "low 0\nhigh 0\nmax 12\noom 1\noom_kill 0\noom_group_kill 0\n", "memory.peak": "4096\n", "pids.events": "max 0\n",
		"cpu.stat": "usage_usec 30\nuser_usec 10000\nsystem_usec 20000\n", "io.stat": "8:0 rbytes=1 wbytes=2 rios=3\n8:16 rbytes=10 wbytes=20 rios=30\n",
	})
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	a := &account{dir: fd}
	if a.outOfMemory() || a.refusedProcess() {
		t.Error("pressure is taken for the end of a process")
	}
	var u Usage
	a.usage(&u)
	if u.User.Milliseconds() != 10 || u.System.Milliseconds() != 20 || *u.IORead != 11 || *u.IOWritten != 22 || *u.PeakMemory != 4096 || u.Processes != nil {
		t.Errorf("got %+v; want u.User.Milliseconds() 10, u.System.Milliseconds() 20, u.IORead 11, u.IOWritten 22, u.PeakMemory 4096, u.Processes nil", u)
	}
	for file, text := range map[string]string{"memory.events": "oom_kill 0\noom_group_kill 1\n", "pids.events": "max 3\n"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !a.outOfMemory() || !a.refusedProcess() {
		t.Error("the kernel's counters are not read")
	}
	a.close()
	a.close()
	if a.outOfMemory() || (*account)(nil).outOfMemory() {
		t.Error("a closed account counts")
	}
}

// TestNoControllers: a cgroup without controllers, as on a machine with cgroups v1, cannot enforce
// limits, nor can a cgroup of another user. The error names the remedy.
func TestNoControllers(t *testing.T) {
	bare := fakeCgroup(t, map[string]string{"cgroup.controllers": "hugetlb io\n", "cgroup.subtree_control": ""})
	if _, err := makeLimitRoot(bare, true); err == nil || !strings.Contains(err.Error(), "Delegate=yes") {
		t.Errorf("without controllers: %v", err)
	}
	if left, _ := os.ReadDir(bare); len(left) != 2 {
		t.Errorf("it leaves %v", left)
	}
	if _, err := makeLimitRoot(filepath.Join(bare, "absent"), false); err == nil {
		t.Error("an absent cgroup limits processes")
	}
}

// TestEnable: only controllers that are offered and not enabled are enabled.
func TestEnable(t *testing.T) {
	dir := fakeCgroup(t, map[string]string{"cgroup.subtree_control": "memory\n"})
	added, err := enable(dir, []string{"memory", "cpu", "rdma"})
	if err != nil || !slices.Equal(added, []string{"cpu"}) {
		t.Errorf(`got added %v, error %v; want no error, added []string{"cpu"}`, added, err)
	}
	if _, err := enable(t.TempDir(), []string{"memory"}); err == nil || !strings.Contains(err.Error(), "enable the controller memory") {
		t.Errorf("a cgroup that refuses: %v", err)
	}
}

// TestStranger: if a cgroup was not delegated and contains other processes, it is not used.
func TestStranger(t *testing.T) {
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Wait() }()
	defer func() { _ = child.Process.Kill() }()
	if pid := stranger([]int{os.Getpid(), child.Process.Pid}); pid != -1 {
		t.Errorf("%d is a stranger", pid)
	}
	for _, pid := range []int{0, os.Getppid()} {
		if got := stranger([]int{os.Getpid(), pid}); got != pid {
			t.Errorf("%d: %d is the stranger", pid, got)
		}
	}
	dir := fakeCgroup(t, map[string]string{"cgroup.procs": "0\n"})
	if err := vacateCgroup(dir); err == nil || !strings.Contains(err.Error(), "systemd-run --scope") {
		t.Errorf(`got error %v, want an error with "systemd-run --scope"`, err)
	}
}

// TestSweep: the cgroup of a running server is not removed.
func TestSweep(t *testing.T) {
	base := t.TempDir()
	var dirs []string
	for _, name := range []string{limitPrefix + "1-a", limitPrefix + "2-b", "other"} {
		dirs = append(dirs, filepath.Join(base, name))
		if err := os.Mkdir(dirs[len(dirs)-1], 0o700); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := os.Open(dirs[0])
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	sweepLimitRoots(base)
	left, _ := filepath.Glob(base + "/*")
	if !slices.Equal(left, []string{dirs[0], dirs[2]}) {
		t.Errorf("left: %v", left)
	}
}

// Servers that start at the same time keep their directories, although each removes
// unlocked ones.
func TestMakeLockedBesideSweeps(t *testing.T) {
	base := t.TempDir()
	var servers sync.WaitGroup
	for range 4 {
		servers.Go(func() {
			for range 100 {
				sweepLimitRoots(base)
				path, lock, err := makeLocked(base)
				if err != nil {
					t.Error(err)
					return
				}
				sweepLimitRoots(base)
				if _, err := os.Lstat(path); err != nil {
					t.Errorf("a locked directory was removed: %v", err)
				}
				_ = os.Remove(path)
				_ = lock.Close()
			}
		})
	}
	servers.Wait()
	if left, _ := os.ReadDir(base); len(left) > 0 {
		t.Errorf("%d directories are left", len(left))
	}
}
