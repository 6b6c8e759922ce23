package shortage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// mostProcesses is how many processes and threads the server and its commands may have together.
const mostProcesses = 250

// shortages are the ways in which a machine bounds processes.
var shortages = []struct {
	name  string
	limit func(w *world, pid int) string
}{
	{"RLIMIT_NPROC", limitUser},
	{"pids.max", limitCgroup},
}

// limitUser bounds the processes of the server's user.
func limitUser(w *world, _ int) string {
	w.t.Helper()
	uid := os.Getuid()
	if w.credential != nil {
		uid = int(w.credential.Uid)
	}
	return strconv.Itoa(mostProcesses + threadsOf(w.t, uid))
}

// threadsOf counts the threads of a user.
func threadsOf(t *testing.T, uid int) (n int) {
	t.Helper()
	for _, pid := range processes(t) {
		info, err := os.Stat("/proc/" + pid + "/task")
		if err == nil && int(info.Sys().(*syscall.Stat_t).Uid) == uid {
			n += int(info.Sys().(*syscall.Stat_t).Nlink) - 2
		}
	}
	return n
}

// limitCgroup puts the server into a cgroup that bounds processes.
func limitCgroup(w *world, pid int) string {
	w.t.Helper()
	dir := newCgroup(w.t)
	write := func(name string, value int) {
		harness.Must(w.t, os.WriteFile(filepath.Join(dir, name), []byte(strconv.Itoa(value)), 0o644))
	}
	write("pids.max", mostProcesses)
	write("cgroup.procs", pid)
	return ""
}

var errNoController = errors.New("no hierarchy of cgroups has the controller pids")

// newCgroup makes a cgroup with the controller pids, of version 1 or 2.
func newCgroup(t *testing.T) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	harness.Must(t, err)
	err = errNoController
	for line := range strings.Lines(string(mounts)) {
		head, tail, _ := strings.Cut(line, " - ")
		at, kind := strings.Fields(head)[4], strings.Fields(tail)[0]
		if kind != "cgroup2" && (kind != "cgroup" || !strings.Contains(tail, "pids")) {
			continue
		}
		dir := filepath.Join(at, fmt.Sprintf("codex-shortage-%d", os.Getpid()))
		if err = os.Mkdir(dir, 0o755); err != nil {
			continue
		}
		if _, err = os.Stat(filepath.Join(dir, "pids.max")); err == nil {
			t.Cleanup(func() { removeCgroup(t, dir) })
			return dir
		}
		_ = os.Remove(dir)
	}
	testutil.Need(t, "cgroup with the controller pids", err, errNoController, fs.ErrPermission, fs.ErrNotExist, unix.EROFS)
	return ""
}

// removeCgroup kills what is left in a cgroup and removes it.
func removeCgroup(t *testing.T, dir string) {
	testutil.Eventually(context.Background(), t, "no process in the cgroup", func() (string, bool) {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if err == nil {
			err = os.Remove(dir)
		}
		return fmt.Sprint(string(text), err), err == nil
	})
}
