package threads

import (
	"math"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// files are those of a machine.
type files map[string]string

func (f files) read(path string) ([]byte, error) {
	text, ok := f[path]
	if !ok {
		return nil, os.ErrNotExist
	}
	return []byte(text), nil
}

// with returns the files and more of them.
func (f files) with(more files) files {
	all := files{}
	for _, m := range []files{f, more} {
		for path, text := range m {
			all[path] = text
		}
	}
	return all
}

func TestRoom(t *testing.T) {
	plain := files{
		"/proc/sys/kernel/threads-max": "100000\n", "/proc/sys/kernel/pid_max": "4194304\n", "/proc/loadavg": "0.1 0.2 0.3 2/1000 4711\n",
	}
	unified := plain.with(files{
		"/proc/self/cgroup":               "0::/a.slice/b.scope\n",
		"/proc/self/mountinfo":            "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
		"/sys/fs/cgroup/a.slice/pids.max": "500\n", "/sys/fs/cgroup/a.slice/pids.current": "480\n",
		"/sys/fs/cgroup/a.slice/b.scope/pids.max": "max\n", "/sys/fs/cgroup/a.slice/b.scope/pids.current": "7\n",
	})
	for _, tt := range []struct {
		name  string
		files files
		limit uint64
		want  int
	}{
		{"the machine", plain, unix.RLIM_INFINITY, 99_000},
		{"pid_max", plain.with(files{"/proc/sys/kernel/pid_max": "32768"}), unix.RLIM_INFINITY, 31_768},
		{"far from the user's limit", plain, 5000, 4000},
		{"near it: the user's own threads count", plain, 1200, 1200 - 70},
		{"beyond it", plain, 50, 0},
		{"a cgroup around that of the program", unified, unix.RLIM_INFINITY, 20},
		{"its own", unified.with(files{"/sys/fs/cgroup/a.slice/b.scope/pids.max": "10"}), unix.RLIM_INFINITY, 3},
		{"more than the limit", unified.with(files{"/sys/fs/cgroup/a.slice/pids.current": "501"}), unix.RLIM_INFINITY, 0},
		{"a container", plain.with(files{
			"/proc/self/cgroup":       "0::/\n",
			"/proc/self/mountinfo":    "30 23 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup ro\n",
			"/sys/fs/cgroup/pids.max": "100", "/sys/fs/cgroup/pids.current": "11",
		}), unix.RLIM_INFINITY, 89},
		{"a part of the hierarchy", plain.with(files{
			"/proc/self/cgroup":         "0::/docker/x/y\n",
			"/proc/self/mountinfo":      "30 23 0:26 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup ro\n",
			"/sys/fs/cgroup/y/pids.max": "100", "/sys/fs/cgroup/y/pids.current": "12",
		}), unix.RLIM_INFINITY, 88},
		{"version 1", plain.with(files{
			"/proc/self/cgroup": "9:name=systemd:/\n8:cpu,pids:/z\n0::/\n",
			"/proc/self/mountinfo": "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
				"32 23 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,cpu,pids\n",
			"/sys/fs/cgroup/pids/z/pids.max": "64", "/sys/fs/cgroup/pids/z/pids.current": "60",
		}), unix.RLIM_INFINITY, 4},
		{"nothing is known", files{}, unix.RLIM_INFINITY, math.MaxInt32},
		{"malformed", files{
			"/proc/loadavg": "x", "/proc/self/mountinfo": "\nx - \n - cgroup2\n1 2 3 4 5 - \n", "/proc/self/cgroup": "0\n::\n0::relative\n",
		}, unix.RLIM_INFINITY, math.MaxInt32},
	} {
		m := machine{tt.files.read, tt.limit, func() int { return 70 }}
		if got := m.room(); got != tt.want {
			t.Errorf("%s: room for %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestRoomHere: this machine gives something, and the test has threads.
func TestRoomHere(t *testing.T) {
	if n := Room(); n <= 0 {
		t.Errorf("this machine has room for %d", n)
	}
	if n := userThreads(); n < Count() {
		t.Errorf("the user has %d threads, and this program %d", n, Count())
	}
}
