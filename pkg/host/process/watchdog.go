//go:build linux || darwin

package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// watchdog is the supervisor's side of a process that outlives it for a
// moment: the watchdog process holds the read end of a pipe and kills the
// remaining descendants if the pipe ends without the line `q`. It runs in a
// session of its own, so that a signal to this program's group does not kill it.
//
// The lines are: `c PATH`, a cgroup to kill; `r CONTROLLERS PATH`, which cgroup gives
// controllers to its children that it did not before; `+PID`, a session that has no
// cgroup; `=PID`, a session whose leader does not end with this program;
// `-PID`, that leader has ended; `q`, nothing is left.
type watchdog struct {
	once sync.Once

	mu   sync.Mutex
	pipe *os.File // nil: there is none
	pid  int
	done chan struct{}
}

// start starts the watchdog with the first process.
func (d *watchdog) start(s *Supervisor) {
	d.once.Do(func() {
		if len(s.opts.Watchdog) == 0 {
			return
		}
		if err := d.spawn(s); err != nil {
			s.log.Warn("no watchdog: descendants may outlive a killed server", "error", err)
		}
	})
}

func (d *watchdog) spawn(s *Supervisor) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = w.Close()
		return err
	}
	defer null.Close()
	argv := s.opts.Watchdog
	s.forks.RLock()
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOGC=off", "GOMAXPROCS=1"},
		Files: []uintptr{r.Fd(), null.Fd(), null.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	d.mu.Lock()
	if err == nil {
		d.pipe, d.pid, d.done = w, pid, make(chan struct{})
	}
	d.mu.Unlock()
	s.forks.RUnlock()
	if err != nil {
		_ = w.Close()
		return fmt.Errorf("start %s: %w", argv[0], err)
	}
	s.wg.Go(func() {
		waitStatus(pid)
		close(d.done)
		s.lookForOrphans()
	})
	if root := s.cgroups(); root != nil {
		d.send("c " + root.path)
	}
	return nil
}

// send sends the watchdog a line. Errors are ignored: a watchdog that has ended
// is needed only if this program is killed.
func (d *watchdog) send(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pipe != nil {
		_, _ = d.pipe.WriteString(line + "\n")
	}
}

func (d *watchdog) started(pid int, withoutCgroup bool) {
	switch {
	case !diesWithParent:
		d.send("=" + strconv.Itoa(pid))
	case withoutCgroup:
		d.send("+" + strconv.Itoa(pid))
	}
}

// ended must be called before the pid of a process can be reused.
func (d *watchdog) ended(pid int) {
	if !diesWithParent {
		d.send("-" + strconv.Itoa(pid))
	}
}

func (d *watchdog) isWatchdog(pid int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pipe != nil && pid == d.pid
}

// close ends the watchdog and waits for it.
func (d *watchdog) close() {
	d.send("q")
	d.mu.Lock()
	pipe, done := d.pipe, d.done
	d.pipe = nil
	d.mu.Unlock()
	if pipe != nil {
		_ = pipe.Close()
		<-done
	}
}

// RunWatchdog is the main function of the command in Options.Watchdog: it reads
// lines from in (see watchdog), and kills the processes that they name if in
// ends without the line `q`.
func RunWatchdog(in io.Reader) {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	var roots []cgroupDir
	var enabled, base string
	leaders, running := make(map[int]bool), make(map[int]bool)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case line == "q":
			return
		case strings.HasPrefix(line, "c "):
			roots = append(roots, cgroupDir{path: line[2:]})
		case strings.HasPrefix(line, "r "):
			enabled, base, _ = strings.Cut(line[2:], " ")
		case line == "":
		default:
			pid, err := strconv.Atoi(line[1:])
			if err != nil || pid <= 1 {
				continue
			}
			if line[0] == '=' {
				running[pid] = true
				continue
			}
			delete(running, pid)
			if len(leaders) >= rememberedLeaders {
				clear(leaders)
			}
			leaders[pid] = true
		}
	}
	// The processes have had their parent-death signal, and some clean up.
	time.Sleep(settleTime)
	for _, root := range roots {
		root.killAllButJanitors()
		root.kill()
	}
	for pid := range running {
		for member := range freeze(pid, func(int) bool { return false }) {
			_ = syscall.Kill(member, syscall.SIGKILL)
		}
	}
	left := make([]int, 0, len(leaders))
	for pid := range leaders {
		left = append(left, pid)
	}
	new(Supervisor).killSessions(left)
	for _, root := range roots {
		root.removeAll()
	}
	if base != "" {
		disable(base, strings.Split(enabled, ","))
	}
}
