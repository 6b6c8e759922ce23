package process

import (
	"math"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// machineFiles are the files of a machine.
type machineFiles map[string]string

func (f machineFiles) read(path string) ([]byte, error) {
	text, ok := f[path]
	if !ok {
		return nil, os.ErrNotExist
	}
	return []byte(text), nil
}

// with returns the files and additional ones.
func (f machineFiles) with(more machineFiles) machineFiles {
	all := machineFiles{}
	for _, m := range []machineFiles{f, more} {
		for path, text := range m {
			all[path] = text
		}
	}
	return all
}

// TestBoundOfTasks: the result is the smallest limit that applies to this program.
func TestBoundOfTasks(t *testing.T) {
	plain := machineFiles{"/proc/sys/kernel/threads-max": "100000\n", "/proc/sys/kernel/pid_max": "4194304\n"}
	unified := plain.with(machineFiles{
		"/proc/self/cgroup":                       "0::/a.slice/b.scope\n",
		"/proc/self/mountinfo":                    "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
		"/sys/fs/cgroup/a.slice/pids.max":         "500\n",
		"/sys/fs/cgroup/a.slice/b.scope/pids.max": "max\n",
	})
	for _, tt := range []struct {
		name  string
		files machineFiles
		limit uint64
		want  uint64
	}{
		{"threads-max", plain, unix.RLIM_INFINITY, 100_000},
		{"pid_max", plain.with(machineFiles{"/proc/sys/kernel/pid_max": "32768"}), unix.RLIM_INFINITY, 32_768},
		{"RLIMIT_NPROC", plain, 5000, 5000},
		{"a cgroup around that of the program", unified, unix.RLIM_INFINITY, 500},
		{"its own cgroup", unified.with(machineFiles{"/sys/fs/cgroup/a.slice/b.scope/pids.max": "10"}), unix.RLIM_INFINITY, 10},
		{"a container", plain.with(machineFiles{
			"/proc/self/cgroup":       "0::/\n",
			"/proc/self/mountinfo":    "30 23 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup ro\n",
			"/sys/fs/cgroup/pids.max": "100",
		}), unix.RLIM_INFINITY, 100},
		{"a part of the hierarchy", plain.with(machineFiles{
			"/proc/self/cgroup":         "0::/docker/x/y\n",
			"/proc/self/mountinfo":      "30 23 0:26 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup ro\n",
			"/sys/fs/cgroup/y/pids.max": "101",
		}), unix.RLIM_INFINITY, 101},
		{"version 1", plain.with(machineFiles{
			"/proc/self/cgroup": "9:name=systemd:/\n8:cpu,pids:/z\n0::/\n",
			"/proc/self/mountinfo": "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
				"32 23 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,cpu,pids\n",
			"/sys/fs/cgroup/pids/z/pids.max": "64",
		}), unix.RLIM_INFINITY, 64},
		{"nothing is known", machineFiles{}, unix.RLIM_INFINITY, math.MaxInt32},
		{"malformed", machineFiles{
			"/proc/self/mountinfo": "\nx - \n - cgroup2\n1 2 3 4 5 - \n", "/proc/self/cgroup": "0\n::\n0::relative\n", "/proc/sys/kernel/pid_max": "-1",
		}, unix.RLIM_INFINITY, math.MaxInt32},
	} {
		m := machine{tt.files.read, tt.limit}
		if got := m.bound(); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestWithout: commands leave the tasks that the server needs, or half of the total if the total is
// too small.
func TestWithout(t *testing.T) {
	for _, tt := range []struct{ bound, rest, want uint64 }{
		{4915, 512, 4403}, {1024, 512, 512}, {1023, 512, 512}, {100, 512, 50}, {1, 512, 1}, {0, 512, 0},
	} {
		if got := without(tt.bound, tt.rest); got != tt.want {
			t.Errorf("%d without %d: got %d, want %d", tt.bound, tt.rest, got, tt.want)
		}
	}
}
