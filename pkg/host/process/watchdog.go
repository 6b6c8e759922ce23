package process

import (
	"bufio"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// watchdog is the supervisor's side of the watchdog process, which outlives the supervisor for a
// moment. The watchdog process holds the read end of a pipe, and kills the remaining descendants if
// the pipe ends without the line `q`. It runs in its own session, so that a signal to this
// program's group does not kill it. If it has ended, for example because a user killed it, the next
// start of a process starts another watchdog.
//
// The lines are:
//
//	c PATH              a cgroup to kill
//	r CONTROLLERS PATH  controllers that this program has enabled for the children of a cgroup
//	+PID                a session that has no cgroup
//	=PID                a session whose leader does not end with this program
//	-PID                that leader has ended
//	q                   nothing is left to do
type watchdog struct {
	starting sync.Mutex // held during the start of a watchdog, and by close

	mu      sync.Mutex
	pipe    *os.File // nil: it does not run
	pid     int
	done    chan struct{}
	closed  bool
	failed  bool           // the last one could not be started, which was logged
	cgroups []string       // the lines about cgroups
	running map[int]string // the lines about sessions whose leaders run, by their pids
}

// start starts the watchdog if it is not running.
func (d *watchdog) start(s *Supervisor) {
	if len(s.opts.Watchdog) == 0 {
		return
	}
	d.starting.Lock()
	defer d.starting.Unlock()
	d.mu.Lock()
	wanted, failed := d.pipe == nil && !d.closed, d.failed
	d.mu.Unlock()
	if !wanted {
		return
	}
	err := d.spawn(s)
	if err != nil && !failed {
		s.log.Warn("no watchdog: descendants may outlive a killed server", "error", explainShortage(err))
	}
	d.mu.Lock()
	d.failed = err != nil
	d.mu.Unlock()
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
	spec := Spec{Argv: s.opts.Watchdog, Dir: "/", Env: []string{"GOGC=off", "GOMAXPROCS=1"}, outlives: true}
	s.forks.RLock()
	pid, pidfd, err := spec.fork(&ends{files: [3]int{int(r.Fd()), int(null.Fd()), int(null.Fd())}}, ownProgram(spec.Argv[0]), -1)
	if err == nil {
		d.begin(w, pid)
	}
	s.forks.RUnlock()
	if err != nil {
		_ = w.Close()
		return err
	}
	s.wg.Go(func() { d.routineWaiter(s, pid, pidfd) })
	s.cgroups() // which are sent to it
	return nil
}

// begin registers a new watchdog, and sends it the lines that the previous one had.
func (d *watchdog) begin(pipe *os.File, pid int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pipe, d.pid, d.done = pipe, pid, make(chan struct{})
	for _, line := range slices.Concat(d.cgroups, slices.Collect(maps.Values(d.running))) {
		d.write(line)
	}
}

// routineWaiter waits for the end of a watchdog.
func (d *watchdog) routineWaiter(s *Supervisor, pid, pidfd int) {
	awaitEnd(pid, pidfd)
	waitStatus(pid)
	d.mu.Lock()
	if d.pipe != nil {
		_ = d.pipe.Close()
		d.pipe = nil
	}
	close(d.done)
	d.mu.Unlock()
	s.lookForOrphans()
}

// send sends the watchdog a line about a cgroup.
func (d *watchdog) send(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.cgroups, line) {
		d.cgroups = append(d.cgroups, line)
		d.write(line)
	}
}

// write writes a line. Errors are ignored: if the watchdog has ended, that matters only if this
// program is killed. d.mu must be held.
func (d *watchdog) write(line string) {
	if d.pipe != nil {
		_, _ = d.pipe.WriteString(line + "\n")
	}
}

func (d *watchdog) started(pid int, withoutCgroup bool) {
	line := "+" + strconv.Itoa(pid)
	switch {
	case !diesWithParent:
		line = "=" + strconv.Itoa(pid)
	case !withoutCgroup:
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == nil {
		d.running = make(map[int]string)
	}
	d.running[pid] = line
	d.write(line)
}

// ended reports to the watchdog that a process has ended. It must be called before the pid of the
// process can be reused.
func (d *watchdog) ended(pid int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.running, pid)
	if !diesWithParent {
		d.write("-" + strconv.Itoa(pid))
	}
}

func (d *watchdog) isWatchdog(pid int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pipe != nil && pid == d.pid
}

// close ends the watchdog and waits for it.
func (d *watchdog) close() {
	d.starting.Lock()
	defer d.starting.Unlock()
	d.mu.Lock()
	d.write("q")
	pipe, done := d.pipe, d.done
	d.pipe, d.closed = nil, true
	d.mu.Unlock()
	if pipe != nil {
		_ = pipe.Close()
		<-done
	}
}

// RunWatchdog is the main function of the command in Options.Watchdog. It reads lines from in (see
// watchdog). If in ends without the line `q`, it kills the processes that the lines name.
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
	// The processes have got their parent-death signal, and some of them clean up now.
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
		removeLimits(root.path)
	}
	if base != "" {
		disable(base, strings.Split(enabled, ","))
	}
}
