//go:build linux || darwin

package process

import (
	"os"
	"syscall"
	"time"
)

// killPatiently kills a program that takes everything with it, and lets it.
func (p *Process) killPatiently() {
	if !p.spec.Patient {
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
	p.cg.tidy()
}

// JanitorName is the name, as in /proc/PID/comm, of processes that remove
// what a killed program left behind: they are killed a moment after the others.
// Whoever calls itself so gets that moment and nothing more.
const JanitorName = "codex-janitor"

// tidy kills what is in the cgroup but janitors, until none is left, or their
// time is over.
func (c cgroupDir) tidy() {
	for deadline := time.Now().Add(tidyTime); time.Now().Before(deadline); time.Sleep(tidyPoll) {
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
	p.killPatiently()
	if p.cg.kill() {
		return
	}
	p.mu.Lock()
	reaped := p.reaped
	p.mu.Unlock()
	if reaped {
		p.group.s.killSessions([]int{p.pid})
		return
	}
	// On a busy machine a program that was killed patiently may not have ended
	// yet, and its janitor is still its child.
	janitors := make(map[int]bool)
	family := freeze(p.pid, func(pid int) bool {
		if p.spec.Patient && isJanitor(pid) {
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

// awaitJanitors gives janitors their time, and kills those that are left.
func awaitJanitors(janitors map[int]bool) {
	if len(janitors) == 0 {
		return
	}
	for deadline := time.Now().Add(tidyTime); ; time.Sleep(tidyPoll) {
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

// freeze stops a process that leads a session, with its descendants but those
// that are spared, and returns them all. Whoever is stopped starts nothing more, so that once
// everybody is stopped nobody is missing. Parents are not killed before their
// children are known: the tree could no longer be seen.
func freeze(leader int, spare func(pid int) bool) map[int]bool {
	family := map[int]bool{leader: true}
	for range freezeRounds {
		for pid := range family {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
		if !grow(family, leader, spare) {
			break
		}
	}
	return family
}

// grow adds to family who descends from it or belongs to the session of
// leader, and reports whether there was anybody.
func grow(family map[int]bool, leader int, spare func(pid int) bool) bool {
	grew := false
	table := processTable()
	for again := true; again; {
		again = false
		for _, e := range table {
			if !family[e.pid] && !e.zombie && (family[e.parent] || e.session == leader) && !spare(e.pid) {
				family[e.pid] = true
				again, grew = true, true
			}
		}
	}
	return grew
}

// killSessions kills who is left in sessions whose leaders have ended.
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
			// The number was given to somebody else meanwhile, who then
			// leads a session of its own.
			if left[e.pid] && !e.zombie && e.session == e.pid {
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

// killOrphans kills the children that were adopted from processes that have
// ended, until there are none. Janitors get time to finish: when a server ends
// together with a sandboxed request, what the janitor would remove stays in
// the user's workspace otherwise.
func (s *Supervisor) killOrphans() {
	deadline := time.Now().Add(tidyTime)
	for s.killOrphansBut(isJanitor) && time.Now().Before(deadline) {
		time.Sleep(tidyPoll)
	}
	s.killOrphansBut(func(int) bool { return false })
}

// killOrphansBut kills adopted children but those that are spared, and reports
// whether some were spared.
func (s *Supervisor) killOrphansBut(spare func(pid int) bool) (spared bool) {
	self := os.Getpid()
	for range freezeRounds {
		found := false
		spared = false
		for _, e := range processTable() {
			switch {
			case e.parent != self || e.zombie || s.dog.isWatchdog(e.pid):
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
}
