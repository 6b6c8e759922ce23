package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupRoot is the cgroup v2 directory of this supervisor. It contains a cgroup for each group,
// which contains a cgroup for each process. Unlike the cgroups of limitRoot they limit no
// resources. They exist because a descendant cannot leave its cgroup. A nil root creates no
// cgroups.
type cgroupRoot struct {
	path string
	next atomic.Uint64
}

// newCgroupRoot creates the supervisor's directory inside the cgroup of this program.
func newCgroupRoot() (*cgroupRoot, error) {
	if err := startsInCgroups(); err != nil {
		return nil, err
	}
	_, own, err := ownCgroup()
	if err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(own, fmt.Sprintf("exec-server-%d-", os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("make a cgroup: %w", err)
	}
	if err := unix.Access(filepath.Join(path, "cgroup.kill"), unix.W_OK); err != nil {
		_ = os.Remove(path)
		return nil, fmt.Errorf("%s has no cgroup.kill (Linux 5.14): %w", path, err)
	}
	return &cgroupRoot{path: path}, nil
}

// ownCgroup returns the mount point of the cgroup v2 file system, and the directory of this program's
// cgroup in it.
func ownCgroup() (mount, own string, err error) {
	path, err := cgroupPath()
	if err != nil {
		return "", "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(mounts)) {
		head, tail, ok := strings.Cut(line, " - ")
		fields := strings.Fields(head)
		if !ok || len(fields) < 5 || !strings.HasPrefix(tail, "cgroup2 ") {
			continue
		}
		// The mount may show only a part of the cgroup hierarchy.
		below, err := filepath.Rel(fields[3], path)
		if err != nil || below == ".." || strings.HasPrefix(below, "../") {
			continue
		}
		return fields[4], filepath.Join(fields[4], below), nil
	}
	return "", "", errors.New("no cgroup v2 is mounted")
}

// cgroupPath returns this program's cgroup v2 path as /proc shows it.
func cgroupPath() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSpace(path), nil
		}
	}
	return "", errors.New("this program is in no cgroup v2")
}

// session makes a directory for a group.
func (r *cgroupRoot) session() cgroupDir {
	return cgroupDir{path: r.path}.child(r)
}

func (r *cgroupRoot) remove() {
	if r != nil {
		cgroupDir{path: r.path}.removeAll()
	}
}

// cgroupDir is one cgroup. The methods of the zero value
// do nothing.
type cgroupDir struct{ path string }

// child creates a cgroup inside this one. It returns the zero value if it cannot.
func (c cgroupDir) child(r *cgroupRoot) cgroupDir {
	if c.path == "" {
		return cgroupDir{}
	}
	path := filepath.Join(c.path, strconv.FormatUint(r.next.Add(1), 10))
	if unix.Mkdir(path, 0o755) != nil {
		return cgroupDir{}
	}
	return cgroupDir{path: path}
}

// open returns a descriptor for the cgroup, to start a process in it, or -1.
func (c cgroupDir) open() (int, error) {
	if c.path == "" {
		return -1, nil
	}
	fd, err := unix.Open(c.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open the cgroup %s: %w", c.path, err)
	}
	return fd, nil
}

// kill kills all processes in the cgroup and below it. It reports whether that was possible.
func (c cgroupDir) kill() bool {
	if c.path == "" {
		return false
	}
	f, err := os.OpenFile(filepath.Join(c.path, "cgroup.kill"), os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = f.WriteString("1")
	return err == nil
}

// members returns the pids of the processes in the cgroup and below it.
func (c cgroupDir) members() []int {
	if c.path == "" {
		return nil
	}
	var pids []int
	_ = filepath.WalkDir(c.path, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" {
			return nil
		}
		text, _ := os.ReadFile(path)
		for word := range strings.FieldsSeq(string(text)) {
			// For a process in another PID namespace the kernel reports pid 0.
			if pid, err := strconv.Atoi(word); err == nil && pid > 1 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// isJanitor reports whether a process is called JanitorName.
func isJanitor(pid int) bool {
	comm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return err == nil && string(comm) == JanitorName+"\n"
}

// remove removes the cgroup if it is empty. Otherwise the cgroup exists until the group is closed.
func (c cgroupDir) remove() {
	if c.path != "" {
		_ = unix.Rmdir(c.path)
	}
}

// removeAll kills all processes in the cgroup and removes it with the cgroups
// below. It waits up to killTime for the processes to end.
func (c cgroupDir) removeAll() {
	if c.path == "" {
		return
	}
	deadline := time.Now().Add(killTime)
	for c.populated() && time.Now().Before(deadline) {
		c.kill()
		time.Sleep(time.Millisecond)
	}
	entries, _ := os.ReadDir(c.path)
	for _, e := range entries {
		if e.IsDir() {
			cgroupDir{path: filepath.Join(c.path, e.Name())}.removeAll()
		}
	}
	c.remove()
}

func (c cgroupDir) populated() bool {
	text, err := os.ReadFile(filepath.Join(c.path, "cgroup.events"))
	return err == nil && strings.Contains(string(text), "populated 1")
}
