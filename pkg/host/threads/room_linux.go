package threads

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Room returns how many more processes and threads the machine gives to this program's user, as far as that can be
// seen: other users of the machine and, in a container, cgroups outside of it may have taken more.
func Room() int { return machine{os.ReadFile, userLimit(), userThreads}.room() }

// machine is what limits processes and threads.
type machine struct {
	read  func(path string) ([]byte, error)
	limit uint64     // RLIMIT_NPROC
	used  func() int // counts the threads of the user
}

// userLimit returns RLIMIT_NPROC. The kernel does not apply it to root, who rarely has one.
func userLimit() uint64 {
	var r syscall.Rlimit
	if syscall.Getrlimit(unix.RLIMIT_NPROC, &r) != nil {
		return unix.RLIM_INFINITY
	}
	return r.Cur
}

// userThreads counts the threads of this program's user.
func userThreads() (n int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		const ownLinks = 2 // of each directory: its name and its dot
		var st unix.Stat_t
		if unix.Stat("/proc/"+name+"/task", &st) == nil && int(st.Uid) == os.Geteuid() {
			n += int(st.Nlink) - ownLinks
		}
	}
	return n
}

// room returns the least of what the limits leave.
func (m machine) room() int {
	all := m.total()
	left := min(m.number("/proc/sys/kernel/threads-max"), m.number("/proc/sys/kernel/pid_max")) - all
	if m.limit < math.MaxInt32 {
		of := int(m.limit) - all // all threads of the machine are more than those of the user
		if of < roomToCount {
			of = int(m.limit) - m.used()
		}
		left = min(left, of)
	}
	for _, dir := range m.cgroups() {
		if most := m.number(dir + "/pids.max"); most < math.MaxInt32 {
			left = min(left, most-min(most, m.number(dir+"/pids.current")))
		}
	}
	return max(0, left)
}

// total returns how many threads there are on the machine.
func (m machine) total() int {
	text, err := m.read("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 4 {
		return 0
	}
	_, all, _ := strings.Cut(fields[3], "/")
	n, _ := strconv.Atoi(all)
	return n
}

// number returns the number in a file. It is math.MaxInt32 if there is none, as in the file of a limit that says max.
func (m machine) number(path string) int {
	text, err := m.read(path)
	n, numErr := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32)
	if err != nil || numErr != nil {
		return math.MaxInt32
	}
	return int(n)
}

// cgroups returns the directories of this program's cgroup with the controller pids, of version 1 or 2, and of those
// around it that can be seen.
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
		// The mount may show a part of the hierarchy.
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

// cgroupIn returns the cgroup of the hierarchy with a controller, or of version 2, in the text of /proc/PID/cgroup.
func cgroupIn(text, controller string) string {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && (parts[1] == controller || controller != "" && strings.Contains(","+parts[1]+",", ","+controller+",")) {
			return parts[2]
		}
	}
	return ""
}
