package process

import (
	"os"
	"syscall"
	"time"
)

// killWithGrace kills a program with Spec.ExitGracePeriod. It gives the program settleTime to kill
// its descendants, and its janitors janitorTime to clean up. For other programs it does nothing.
func (p *Process) killWithGrace() {
	if !p.spec.ExitGracePeriod {
		return
	}
	p.mu.Lock()
	if !p.reaped {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
	p.mu.Unlock()
	deadline := time.Now().Add(settleTime)
	for time.Now().Before(deadline) {
		if p.cg.path != "" && !p.cg.populated() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	p.cg.killAllButJanitors()
}

// JanitorName is the name, as in /proc/PID/comm, of processes that clean up after a killed program.
// They are killed janitorTime after the other processes. Any process can take this name. It then
// lives that much longer and gains nothing else.
const JanitorName = "codex-janitor"

// killAllButJanitors kills the processes of the cgroup except janitors. It
// returns when no janitor is left, or after janitorTime.
func (c cgroupDir) killAllButJanitors() {
	for deadline := time.Now().Add(janitorTime); time.Now().Before(deadline); time.Sleep(janitorPoll) {
		found := false
		for _, pid := range c.members() {
			if isJanitor(pid) {
				found = true
				continue
			}
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if !found {
			return
		}
	}
}

// killTree kills the process and its descendants.
func (p *Process) killTree() {
	if p.program != nil {
		p.program.Kill()
		return
	}
	p.killWithGrace()
	if p.cg.kill() {
		return
	}
	if p.isReaped() {
		p.group.s.killSessions([]int{p.pid})
		return
	}
	// On a busy machine, a program that killWithGrace has killed may not have ended yet, and its
	// janitor is still its child.
	janitors := make(map[int]bool)
	family := freeze(p.pid, func(pid int) bool {
		if p.spec.ExitGracePeriod && isJanitor(pid) {
			janitors[pid] = true
		}
		return janitors[pid]
	})
	p.mu.Lock()
	if !p.reaped {
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	}
	p.mu.Unlock()
	for pid := range family {
		if pid != p.pid {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	awaitJanitors(janitors)
}

// awaitJanitors waits up to janitorTime for janitors, and then kills those that
// still run.
func awaitJanitors(janitors map[int]bool) {
	if len(janitors) == 0 {
		return
	}
	for deadline := time.Now().Add(janitorTime); ; time.Sleep(janitorPoll) {
		left := false
		for _, e := range processTable() {
			if !janitors[e.pid] || e.zombie || !isJanitor(e.pid) {
				continue
			}
			left = true
			if time.Now().After(deadline) {
				_ = syscall.Kill(e.pid, syscall.SIGKILL)
				delete(janitors, e.pid)
			}
		}
		if !left {
			return
		}
	}
}

// freeze stops a session leader and its descendants with SIGSTOP, except for the spared ones, and
// returns them. A stopped process starts no others, so the family is complete when all are stopped.
// Killing a parent before its children are known would lose the children: they would become
// children of another process.
func freeze(leader int, spare func(pid int) bool) map[int]bool {
	family := map[int]bool{leader: true}
	for range freezeRounds {
		for pid := range family {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
		if !addDescendants(family, leader, spare) {
			break
		}
	}
	return family
}

// addDescendants adds to family the processes that descend from it or belong to the session
// of leader, and reports whether it has added any.
func addDescendants(family map[int]bool, leader int, spare func(pid int) bool) bool {
	grew := false
	table := processTable()
	for addFrom(table, family, leader, spare) {
		grew = true
	}
	return grew
}

// addFrom adds to family the processes of a table whose parents are in it, or that belong to the
// session of leader. It reports whether it has added any. The caller repeats the call until it
// returns false.
func addFrom(table []entry, family map[int]bool, leader int, spare func(pid int) bool) (grew bool) {
	for _, e := range table {
		if !family[e.pid] && !e.zombie && (family[e.parent] || e.session == leader) && !spare(e.pid) {
			family[e.pid] = true
			grew = true
		}
	}
	return grew
}

// killSessions kills the processes that are left in sessions whose leaders have
// ended.
func (s *Supervisor) killSessions(leaders []int) {
	if len(leaders) == 0 {
		return
	}
	left := make(map[int]bool, len(leaders))
	for _, pid := range leaders {
		left[pid] = true
	}
	for range freezeRounds {
		table := processTable()
		for _, e := range table {
			// The pid was reused: another process leads a new session.
			if left[e.pid] && e.leadsSession() {
				delete(left, e.pid)
			}
		}
		found := false
		for _, e := range table {
			if left[e.session] && !e.zombie {
				found = true
				_ = syscall.Kill(e.pid, syscall.SIGKILL)
			}
		}
		if !found {
			return
		}
	}
}

// killOrphans kills children that were adopted from ended processes, until there are none. Janitors
// get janitorTime to finish. Otherwise, if a server ended during a sandboxed request, the
// placeholders that the janitor removes would remain in the user's workspace.
func (s *Supervisor) killOrphans() {
	deadline := time.Now().Add(janitorTime)
	for s.killOrphansBut(isJanitor) && time.Now().Before(deadline) {
		time.Sleep(janitorPoll)
	}
	s.killOrphansBut(func(int) bool { return false })
}

// killOrphansBut kills adopted children except for the spared ones, and reports whether it has
// spared any.
func (s *Supervisor) killOrphansBut(spare func(pid int) bool) (spared bool) {
	self := os.Getpid()
	for range freezeRounds {
		found := false
		spared = false
		for _, e := range processTable() {
			switch {
			case e.parent != self || e.zombie || s.watchdog.isWatchdog(e.pid) || s.isKeeper(e.pid):
			case spare(e.pid):
				spared = true
			default:
				found = true
				_ = syscall.Kill(e.pid, syscall.SIGKILL)
			}
		}
		for s.reapOrphan() {
		}
		if !found {
			break
		}
	}
	return spared
}

// entry is one process of the system.
type entry struct {
	pid, parent, session int
	zombie               bool
	// user and system are the processor time of the process and of the children that it has waited
	// for. resident is its memory in bytes.
	user, system time.Duration
	resident     uint64
}

// leadsSession reports whether the process runs and leads a session. After the process was
// reaped, its pid may belong to another process.
func (e *entry) leadsSession() bool { return !e.zombie && e.session == e.pid }
