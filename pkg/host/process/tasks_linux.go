package process

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The kernel limits processes and threads ("tasks") for a user, for a cgroup and for the machine,
// and commands share these limits with this program. Scenario: a command is a fork bomb and uses up
// all tasks. This program reads a file from a slow disk, so the Go runtime needs a thread for the
// other goroutines, and cannot create one. Then the runtime ends the program with all sessions
// ("failed to create new OS thread"). The runtime has no hook for that, and cannot wait. So
// commands get less than the total:
//
//   - With cgroups that have the pids controller, a cgroup limits all commands together (limitRoot).
//   - Elsewhere each command has an RLIMIT_NPROC below that of this program, which counts all tasks of the user. The kernel does not
//     apply it to root, whose commands are not limited then.
//
// TestForkBomb of cmd/codex/e2e/shortage and scripts/services test this.
const (
	// serverTasks is the number of tasks that the cgroup leaves for this program: its 20 usual
	// threads, the threads in slow system calls, and the keepers of detached processes. A keeper
	// and its watchdog have 20 threads.
	serverTasks = 512
	// launcherTasks is the number of tasks that the cgroup leaves for the launchers of sandboxes,
	// in addition to those of the commands. A launcher has 6 to 9 threads.
	launcherTasks = 256
	// userTasks is the number of tasks that RLIMIT_NPROC leaves free. The kernel's count already
	// includes running launchers.
	userTasks = 256
)

// without returns how many tasks commands may have if the total limit is bound and rest must stay
// free. If bound is less than twice rest, commands get half of it.
func without(bound, rest uint64) uint64 { return bound - min(rest, bound/2) }

// machine has the files that show the limits on tasks.
type machine struct {
	read  func(path string) ([]byte, error)
	limit uint64 // RLIMIT_NPROC
}

// thisMachine returns the files that apply to this program.
func thisMachine() machine {
	m := machine{os.ReadFile, unix.RLIM_INFINITY}
	var r syscall.Rlimit
	if os.Geteuid() != 0 && syscall.Getrlimit(unix.RLIMIT_NPROC, &r) == nil {
		m.limit = r.Cur
	}
	return m
}

// bound returns how many tasks can exist at a time, as far as this program can see: the host of a
// container may have smaller limits.
func (m machine) bound() uint64 {
	bound := min(m.limit, m.number("/proc/sys/kernel/threads-max"), m.number("/proc/sys/kernel/pid_max"))
	for _, dir := range m.cgroups() {
		bound = min(bound, m.number(dir+"/pids.max"))
	}
	return bound
}

// number returns the number in a file. If the file has no number, for example because a limit is
// "max", it returns math.MaxInt32.
func (m machine) number(path string) uint64 {
	text, err := m.read(path)
	n, numErr := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 31)
	if err != nil || numErr != nil {
		return math.MaxInt32
	}
	return n
}

// cgroups returns the directories of this program's cgroup with the controller pids, of version 1
// or 2, and of its visible parents.
func (m machine) cgroups() (dirs []string) {
	own, err := m.read("/proc/self/cgroup")
	mounts, mountErr := m.read("/proc/self/mountinfo")
	if err != nil || mountErr != nil {
		return nil
	}
	for line := range strings.Lines(string(mounts)) {
		head, tail, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(head), strings.Fields(tail)
		const root, at = 3, 4
		if !ok || len(fields) <= at || len(kind) == 0 {
			continue
		}
		path := ""
		switch {
		case kind[0] == "cgroup2":
			path = cgroupIn(string(own), "")
		case kind[0] == "cgroup" && strings.Contains(kind[len(kind)-1], "pids"):
			path = cgroupIn(string(own), "pids")
		}
		// The mount may show only a part of the cgroup hierarchy.
		below, err := filepath.Rel(fields[root], path)
		if path == "" || err != nil || below == ".." || strings.HasPrefix(below, "../") {
			continue
		}
		for dir := filepath.Join(fields[at], below); ; dir = filepath.Dir(dir) {
			dirs = append(dirs, dir)
			if dir == fields[at] || dir == "/" {
				break
			}
		}
	}
	return dirs
}

// cgroupIn returns the path of a cgroup from the text of /proc/PID/cgroup: in the hierarchy with a
// controller, or in version 2.
func cgroupIn(text, controller string) string {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && (parts[1] == controller || controller != "" && strings.Contains(","+parts[1]+",", ","+controller+",")) {
			return parts[2]
		}
	}
	return ""
}
