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

// cgroupRoot is the cgroup v2 directory under which this supervisor makes
// its own: one for each group, and in it one for each process. Nothing is
// limited by them; they are there because nothing can leave them. A nil root
// makes none.
type cgroupRoot struct {
	path string
	next atomic.Uint64
}

// newCgroupRoot makes the supervisor's directory inside the cgroup of this
// program. The error says why there can be none.
func newCgroupRoot() (*cgroupRoot, error) {
	own, err := ownCgroup()
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

// ownCgroup returns the directory of this program's cgroup v2.
func ownCgroup() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	place := ""
	for line := range strings.Lines(string(text)) {
		if p, ok := strings.CutPrefix(line, "0::"); ok {
			place = strings.TrimSpace(p)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		head, tail, ok := strings.Cut(line, " - ")
		fields := strings.Fields(head)
		if !ok || len(fields) < 5 || !strings.HasPrefix(tail, "cgroup2 ") || place == "" {
			continue
		}
		// The mount may show a part of the hierarchy.
		below, err := filepath.Rel(fields[3], place)
		if err != nil || below == ".." || strings.HasPrefix(below, "../") {
			continue
		}
		return filepath.Join(fields[4], below), nil
	}
	return "", errors.New("no cgroup v2 is mounted")
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

// cgroupDir is one cgroup. The zero value is none, and every method of it
// does nothing.
type cgroupDir struct {
	path string
	dir  int // descriptor while a process is started in it; 0: closed
}

// child makes a cgroup inside this one; the zero value if it cannot.
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

// fd opens the cgroup to start a process in it; -1: none.
func (c *cgroupDir) fd() int {
	if c.path == "" {
		return -1
	}
	fd, err := unix.Open(c.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	c.dir = fd
	return fd
}

func (c *cgroupDir) closeFD() {
	if c.dir > 0 {
		_ = unix.Close(c.dir)
		c.dir = 0
	}
}

// kill ends everything in the cgroup and below, and reports whether it could.
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

// members are the processes in the cgroup and all below.
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
			// Of another PID namespace it is 0.
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

// remove removes the cgroup if nothing is left in it. If something is, it
// stays with it until the group ends.
func (c cgroupDir) remove() {
	if c.path != "" {
		_ = unix.Rmdir(c.path)
	}
}

// removeAll ends everything in the cgroup and removes it with all below. The
// system takes a moment to end processes and says when there are none.
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
	_ = unix.Rmdir(c.path)
}

func (c cgroupDir) populated() bool {
	text, err := os.ReadFile(filepath.Join(c.path, "cgroup.events"))
	return err == nil && strings.Contains(string(text), "populated 1")
}
