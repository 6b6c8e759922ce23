package process

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// account is the cgroup of a process with limits that controllers enforce. It reports the used
// resources and the reached limits. Its files are opened relative to the descriptor of its
// directory. The nil value counts nothing.
type account struct {
	mu  sync.Mutex // held while the descriptor is used
	dir int        // -1: closed
}

// limited creates the cgroup of a process with such limits, below the cgroup of its group.
func (g *Group) limited(r *limitRoot, l *Limits) (cgroupDir, *account, error) {
	g.mu.Lock()
	if g.limitedCG.path == "" {
		g.limitedCG = r.session()
	}
	parent := g.limitedCG
	g.mu.Unlock()
	// The parent may already exist, with its limits.
	if _, err := enable(parent.path, words(parent.path, "cgroup.controllers")); err != nil || parent.path == "" {
		return cgroupDir{}, nil, fmt.Errorf("make a cgroup for the limits of a process in %s: %w", r.path, orNotMade(err))
	}
	dir := parent.child(&r.cgroupRoot)
	fd, err := unix.Open(dir.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if dir.path == "" || err != nil {
		dir.remove()
		return cgroupDir{}, nil, fmt.Errorf("make a cgroup for the limits of a process in %s: %w", parent.path, orNotMade(err))
	}
	a := &account{dir: fd}
	if err := a.set(r, l); err != nil {
		a.close()
		dir.remove()
		return cgroupDir{}, nil, err
	}
	return dir, a, nil
}

func orNotMade(err error) error {
	if err == nil {
		return unix.EAGAIN
	}
	return err
}

// set writes the limits that the controllers of r enforce.
func (a *account) set(r *limitRoot, l *Limits) error {
	if l.Memory > 0 && r.have[memoryController] {
		if err := a.write("memory.max", strconv.FormatUint(min(l.Memory, math.MaxInt64), 10)); err != nil {
			return err
		}
		// With memory.oom.group the kernel kills all processes of the cgroup. Otherwise it would
		// kill a single one, and the others might not notice.
		if err := a.write("memory.oom.group", "1"); err != nil {
			return err
		}
		if r.swap {
			if err := a.write("memory.swap.max", strconv.FormatUint(min(l.Swap, math.MaxInt64), 10)); err != nil {
				return err
			}
		}
	}
	if l.Processes > 0 && r.have[pidsController] {
		if err := a.write("pids.max", strconv.FormatUint(min(l.Processes, math.MaxInt32), 10)); err != nil {
			return err
		}
	}
	if l.CPUMillis > 0 && r.have[cpuController] {
		return a.write("cpu.max", cpuMax(l.CPUMillis))
	}
	return nil
}

// cpuMax returns the text of cpu.max for thousandths of a processor. The kernel requires a quota of
// at least a millisecond, and a period of at most a second.
func cpuMax(millis uint64) string {
	const period, longest, most = 100_000, 1_000_000, 1 << 30
	millis = min(millis, most)
	if millis < 10 {
		return fmt.Sprintf("%d %d", millis*longest/1000, longest)
	}
	return fmt.Sprintf("%d %d", millis*period/1000, period)
}

func (a *account) write(name, value string) error {
	fd, err := unix.Openat(a.dir, name, unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err == nil {
		_, err = unix.Write(fd, []byte(value))
		_ = unix.Close(fd)
	}
	if err != nil {
		return fmt.Errorf("limit a process: write %s to %s of its cgroup: %w", value, name, err)
	}
	return nil
}

// read returns the text of a file, or "" if the file cannot be read.
func (a *account) read(name string) string {
	if a == nil {
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dir < 0 {
		return ""
	}
	fd, err := unix.Openat(a.dir, name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	b := make([]byte, 4<<10)
	n := 0
	for n < maxCgroupFile {
		if n == len(b) {
			b = append(b, make([]byte, len(b))...)
		}
		m, err := unix.Read(fd, b[n:])
		if err != nil || m <= 0 {
			break
		}
		n += m
	}
	return string(b[:n])
}

// number returns the number in a file, or nil.
func (a *account) number(name string) *uint64 {
	n, err := strconv.ParseUint(strings.TrimSpace(a.read(name)), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// counter returns the number after a word at the beginning of a line, or 0 if no line has that
// word.
func (a *account) counter(file, word string) uint64 { return counterIn(a.read(file), word) }

func counterIn(text, word string) uint64 {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, word+" "); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			return n
		}
	}
	return 0
}

// outOfMemory reports whether the kernel has killed a process of the cgroup because of its memory
// limit.
func (a *account) outOfMemory() bool {
	text := a.read("memory.events")
	return counterIn(text, "oom_kill") > 0 || counterIn(text, "oom_group_kill") > 0
}

// refusedProcess reports whether the kernel has refused a new process because of the limit.
func (a *account) refusedProcess() bool { return a.counter("pids.events", "max") > 0 }

// usage adds the counters of the cgroup to the result of wait4.
func (a *account) usage(u *Usage) {
	if a == nil {
		return
	}
	if text := a.read("cpu.stat"); text != "" {
		u.User = time.Duration(counterIn(text, "user_usec")) * time.Microsecond
		u.System = time.Duration(counterIn(text, "system_usec")) * time.Microsecond
	}
	u.PeakMemory, u.Processes = a.number("memory.peak"), a.number("pids.peak")
	if text := a.read("io.stat"); text != "" {
		read, written := ioCounts(text)
		u.IORead, u.IOWritten = &read, &written
	}
}

// ioCounts sums the bytes of all devices of io.stat, whose lines are like
// "8:0 rbytes=1 wbytes=2 rios=3".
func ioCounts(text string) (read, written uint64) {
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		n, err := strconv.ParseUint(value, 10, 64)
		switch {
		case err != nil:
		case name == "rbytes":
			read += n
		case name == "wbytes":
			written += n
		}
	}
	return read, written
}

// close closes the descriptor. It does nothing for nil.
func (a *account) close() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dir >= 0 {
		_ = unix.Close(a.dir)
		a.dir = -1
	}
}
