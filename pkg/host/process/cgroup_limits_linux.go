package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// These are the controllers of limits. The controller io is used only to count.
const (
	memoryController = "memory"
	pidsController   = "pids"
	cpuController    = "cpu"
	ioController     = "io"
)

var controllers = []string{memoryController, pidsController, cpuController, ioController}

const (
	// leafName is the child cgroup of a delegated cgroup that contains the server itself: a cgroup
	// that contains processes cannot enable controllers for its children. DelegateSubgroup= of
	// systemd must have this value.
	leafName = "server"

	// sharedName is the cgroup next to leafName. It contains the commands of all servers there, and
	// the keepers of their detached processes, which are supervisors too. It bounds the total
	// number of their tasks.
	sharedName = "exec-server-commands"

	// limitPrefix is the beginning of the names of the supervisors' cgroups in sharedName.
	limitPrefix = "exec-server-limits-"

	// vacateRounds bounds how often the server lists the processes in the cgroup that it leaves,
	// because these processes may start others.
	vacateRounds = 16

	// makeTries bounds how often a new directory is created again because another server has
	// removed it. A server removes abandoned directories only once, when it starts.
	makeTries = 16

	// maxCgroupFile is how many bytes of a file of a cgroup are read: io.stat has about 100
	// bytes for each device.
	maxCgroupFile = 64 << 10
)

// limitRoot is the cgroup of this supervisor in which controllers enforce limits. These are the
// cgroups below the one that was delegated to the server:
//
//	server                        the server itself, see leafName
//	exec-server-commands          pids.max: all but serverTasks
//	  exec-server-limits-PID-...  the cgroup of one supervisor, locked
//	    commands                  pids.max: all but launcherTasks of the rest
//	      1                       a group; processes without own limits have cgroups without controllers in it
//	        1
//	      2                       the same group, for processes with limits that controllers enforce
//	        1
//	    launchers                 the launchers of sandboxes that were started ahead
//
// Another server sees by the lock on the directory that this supervisor is alive. It removes the
// directories of a server that was killed together with its watchdog.
type limitRoot struct {
	cgroupRoot                 // commands
	launchers  cgroupDir       // of launchers that were started ahead
	top        string          // the directory around both
	base       string          // the cgroup that was delegated
	have       map[string]bool // controllers
	swap       bool            // swap can be limited
	added      []string        // controllers that were not enabled in base before
	lock       *os.File        // the directory top
}

// limitState creates the limitRoot of a supervisor once.
type limitState struct {
	once sync.Once
	root *limitRoot
	err  error // the reason why it could not be made
}

// limitRoot returns the cgroup for limited processes, or the error of creating it.
func (s *Supervisor) limitRoot() (*limitRoot, error) {
	l := &s.limits
	l.once.Do(func() {
		switch {
		case s.opts.NoLimits != "":
			l.err = errors.New(s.opts.NoLimits)
		case !s.opts.Cgroups:
			l.err = errors.New("this server makes no cgroups")
		default:
			l.root, l.err = newLimitRoot()
		}
		if l.err != nil {
			s.log.Info("no cgroup limits processes", "reason", l.err)
			return
		}
		s.log.Info("cgroups limit processes", "path", l.root.top, "swap", l.root.swap)
		s.watchdog.send("c " + l.root.top)
		if len(l.root.added) > 0 {
			s.watchdog.send("r " + strings.Join(l.root.added, ",") + " " + l.root.base)
		}
	})
	return l.root, l.err
}

// ServiceCgroup reports whether systemd started this program directly in the cgroup of a service,
// and not in a child cgroup. While controllers are enabled there, systemd cannot start the service
// again.
func ServiceCgroup() bool {
	// Most programs are not in a service. For these the mounts need not be read.
	if path, err := cgroupPath(); err != nil || !strings.HasSuffix(path, ".service") {
		return false
	}
	_, own, err := ownCgroup()
	return err == nil && strings.HasSuffix(own, ".service")
}

// removeCgroups removes the cgroups of the supervisor, if there are any. Afterwards it creates no
// others.
func (s *Supervisor) removeCgroups() {
	s.dirs.Do(func() {})
	s.limits.once.Do(func() { s.limits.err = errClosed })
	r := s.limits.root
	if r == nil {
		s.root.remove()
		return
	}
	removeLimits(r.top)
	disable(r.base, r.added)
	_ = r.lock.Close()
}

// removeLimits removes the directory of a supervisor. It also removes the shared directory if this
// was the last supervisor.
func removeLimits(path string) {
	cgroupDir{path: path}.removeAll()
	if shared := filepath.Dir(path); filepath.Base(shared) == sharedName {
		_ = os.Remove(shared)
	}
}

// newLimitRoot creates a limitRoot in the first cgroup that allows it. The candidates are this
// program's cgroup, whose processes are moved to a leaf; its parent, if this program is in that
// leaf already; and ancestors that enable controllers for their children, as for root in a login
// session.
func newLimitRoot() (*limitRoot, error) {
	if err := startsInCgroups(); err != nil {
		return nil, err
	}
	mount, own, err := ownCgroup()
	if err != nil {
		return nil, err
	}
	if filepath.Base(own) == leafName && own != mount {
		if r, err := makeLimitRoot(filepath.Dir(own), false); err == nil {
			return r, nil
		}
	}
	r, err := makeLimitRoot(own, true)
	for dir := own; err != nil && r == nil && dir != mount; {
		dir = filepath.Dir(dir)
		if enabled := words(dir, "cgroup.subtree_control"); slices.Contains(enabled, memoryController) && slices.Contains(enabled, pidsController) {
			r, _ = makeLimitRoot(dir, false)
		}
	}
	if r == nil {
		return nil, err
	}
	return r, nil
}

// makeLimitRoot creates a limitRoot in base. With vacate, base is the cgroup of this program.
func makeLimitRoot(base string, vacate bool) (*limitRoot, error) {
	r := &limitRoot{base: base, have: make(map[string]bool)}
	offered := words(base, "cgroup.controllers")
	if !slices.ContainsFunc(offered, func(c string) bool { return c != ioController && slices.Contains(controllers, c) }) {
		return nil, fmt.Errorf("%s has no controller of memory, pids or cpu: under systemd, the service needs Delegate=yes", base)
	}
	if err := unix.Access(base, unix.W_OK); err != nil {
		return nil, fmt.Errorf("%s cannot be written: %w: under systemd, the service needs Delegate=yes", base, err)
	}
	sweepLimitRoots(filepath.Join(base, sharedName))
	// The root of the hierarchy has no type, and may contain both processes and children.
	if _, err := os.Lstat(filepath.Join(base, "cgroup.type")); err == nil && vacate {
		if err := vacateCgroup(base); err != nil {
			return nil, err
		}
	}
	var err error
	if r.added, err = enable(base, offered); err != nil {
		return nil, err
	}
	if err := r.make(); err != nil {
		disable(base, r.added)
		return nil, err
	}
	return r, nil
}

// make creates the directories of the root, and locks them.
func (r *limitRoot) make() (err error) {
	shared := filepath.Join(r.base, sharedName)
	if r.top, r.lock, err = makeLocked(shared); err != nil {
		return fmt.Errorf("make a cgroup: %w", err)
	}
	if err := r.fill(shared); err != nil {
		_ = r.lock.Close()
		removeLimits(r.top)
		return fmt.Errorf("prepare the cgroup %s: %w", r.top, err)
	}
	return nil
}

// fill creates the children of the root's directory, and bounds the tasks of commands.
func (r *limitRoot) fill(shared string) error {
	r.path, r.launchers.path = filepath.Join(r.top, "commands"), filepath.Join(r.top, "launchers")
	for _, dir := range []string{r.path, r.launchers.path} {
		if err := unix.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	for _, dir := range []string{shared, r.top, r.path} {
		if _, err := enable(dir, words(dir, "cgroup.controllers")); err != nil {
			return err
		}
	}
	if err := unix.Access(filepath.Join(r.top, "cgroup.kill"), unix.W_OK); err != nil {
		return err
	}
	for _, c := range words(r.path, "cgroup.subtree_control") {
		r.have[c] = true
	}
	_, err := os.Lstat(filepath.Join(r.path, "memory.swap.max"))
	r.swap = r.have[memoryController] && err == nil
	if !r.have[pidsController] {
		return nil
	}
	bound := thisMachine().bound()
	most := without(bound, serverTasks)
	if err := writeCgroup(shared, "pids.max", strconv.FormatUint(most, 10)); err != nil {
		return err
	}
	return writeCgroup(r.path, "pids.max", strconv.FormatUint(without(most, launcherTasks), 10))
}

// makeLocked creates and locks the directory of a root in the shared directory, which it creates if
// it is missing. Scenario: another server starts at the same moment and removes the directory
// before it is locked, or a server ends and removes the shared directory. Then makeLocked creates a
// new one.
func makeLocked(shared string) (path string, lock *os.File, err error) {
	for range makeTries {
		if err = unix.Mkdir(shared, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return "", nil, err
		}
		if path, err = os.MkdirTemp(shared, fmt.Sprintf("%s%d-", limitPrefix, os.Getpid())); errors.Is(err, unix.ENOENT) {
			continue
		} else if err != nil {
			return "", nil, err
		}
		if lock, err = os.Open(path); err != nil {
			continue
		}
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			// The directory is locked now. If it still exists, no other server removes it any more.
			if _, err = os.Lstat(path); err == nil {
				return path, lock, nil
			}
		}
		_ = lock.Close()
	}
	_ = os.Remove(path)
	return "", nil, err
}

// enable enables controllers for the children of a cgroup: those that this package uses and that
// are available. It returns the controllers that were not enabled before. It fails if none is
// available.
func enable(path string, offered []string) (added []string, err error) {
	enabled := words(path, "cgroup.subtree_control")
	some := false
	for _, c := range controllers {
		if slices.Contains(enabled, c) {
			some = some || c != ioController
			continue
		}
		if !slices.Contains(offered, c) {
			continue
		}
		if e := writeCgroup(path, "cgroup.subtree_control", "+"+c); e != nil {
			err = fmt.Errorf("enable the controller %s in %s: %w", c, path, e)
			continue
		}
		added = append(added, c)
		some = some || c != ioController
	}
	if some {
		return added, nil
	}
	disable(path, added)
	if err == nil {
		err = fmt.Errorf("%s has no controller of memory, pids or cpu", path)
	}
	return nil, err
}

// disable disables controllers for the children of a cgroup. The kernel refuses that while another
// server has children that use them.
func disable(path string, list []string) {
	for _, c := range list {
		_ = writeCgroup(path, "cgroup.subtree_control", "-"+c)
	}
}

// vacateCgroup moves the processes of a cgroup to its leaf. If the cgroup was not delegated to this
// program, it must contain only this program and its descendants.
func vacateCgroup(path string) error {
	leaf := filepath.Join(path, leafName)
	delegated := isDelegated(path)
	for round := range vacateRounds {
		pids, err := procs(path)
		if err != nil || len(pids) == 0 {
			return err
		}
		if pid := stranger(pids); pid >= 0 && !delegated {
			return fmt.Errorf("%s was not delegated to this server, and process %d is in it too: "+
				"start the server in its own cgroup, for example with systemd-run --scope -p Delegate=yes", path, pid)
		}
		if round == 0 {
			if err := unix.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
				return fmt.Errorf("make the cgroup %s: %w", leaf, err)
			}
			// Processes that this program starts after this are in the leaf.
			pids = append([]int{os.Getpid()}, pids...)
		}
		for _, pid := range pids {
			if err := writeCgroup(leaf, "cgroup.procs", strconv.Itoa(pid)); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("move process %d to the cgroup %s: %w", pid, leaf, err)
			}
		}
	}
	return fmt.Errorf("%s has processes that start others faster than they can be moved", path)
}

// isDelegated reports whether systemd has marked a cgroup as delegated.
func isDelegated(path string) bool {
	var value [2]byte
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Getxattr(path, name, value[:]); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}

// stranger returns a process that is neither this program nor a descendant, or -1.
func stranger(pids []int) int {
	parents := make(map[int]int)
	for _, e := range processTable() {
		parents[e.pid] = e.parent
	}
	self := os.Getpid()
	for _, pid := range pids {
		at, known := pid, pid != 0
		for known && at != self && at > 1 {
			at, known = parents[at]
		}
		// A process that is missing from the table has ended.
		if pid == 0 || known && at != self {
			return pid
		}
	}
	return -1
}

// sweepLimitRoots removes the cgroups of servers that have ended without removing them.
// Their locks are free.
func sweepLimitRoots(base string) {
	entries, _ := os.ReadDir(base)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), limitPrefix) {
			continue
		}
		dir, err := os.Open(filepath.Join(base, e.Name()))
		if err != nil {
			continue
		}
		if unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			cgroupDir{path: filepath.Join(base, e.Name())}.removeAll()
		}
		_ = dir.Close()
	}
}

// procs returns the processes of a cgroup. A process of another PID namespace is 0.
func procs(path string) ([]int, error) {
	text, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for word := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// words returns the words of a file of a cgroup, or nil if the file cannot be read.
func words(path, name string) []string {
	f, err := os.Open(filepath.Join(path, name))
	if err != nil {
		return nil
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxCgroupFile))
	return strings.Fields(string(text))
}

// writeCgroup writes a file of a cgroup.
func writeCgroup(path, name, value string) error {
	f, err := os.OpenFile(filepath.Join(path, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
