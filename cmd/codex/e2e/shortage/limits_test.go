package shortage

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// mostProcesses is the maximum number of processes and threads that the server and its commands may have together.
const mostProcesses = 600

// shortages are the ways in which a machine limits processes.
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
	if w.User != nil {
		uid = int(w.User.Uid)
	}
	threads := 0
	for _, p := range harness.Processes() {
		if tasks, err := os.Stat(fmt.Sprintf("/proc/%d/task", p.PID)); err == nil && p.UID == uid {
			threads += int(tasks.Sys().(*syscall.Stat_t).Nlink) - 2
		}
	}
	return strconv.Itoa(mostProcesses + threads)
}

// limitCgroup puts the server into a cgroup that limits processes.
func limitCgroup(w *world, pid int) string {
	w.t.Helper()
	dir, err := harness.NewCgroup(w.t, "pids.max")
	testutil.Need(w.t, "cgroup with the controller pids", err, harness.ErrNoController, fs.ErrPermission, fs.ErrNotExist, unix.EROFS)
	write := func(name string, value int) {
		harness.Must(w.t, os.WriteFile(filepath.Join(dir, name), []byte(strconv.Itoa(value)), 0o644))
	}
	harness.Must(w.t, os.Chmod(dir, 0o755)) // every cgroup is readable: the server reads the limit from it
	write("pids.max", mostProcesses)
	write("cgroup.procs", pid)
	return ""
}
