package process

import (
	"slices"
	"syscall"
	"time"
)

// limited is the state of the limits that this program enforces itself.
type limited struct {
	timer  *time.Timer // time limit from Limits.WallTime; nil without that limit
	output uint64      // bytes that were delivered; Process.emit guards it
}

// hold returns how the limits of a process are enforced, or an error if a required limit cannot be
// enforced. It is called before the start. If root is not nil, the process needs a cgroup in root.
func (s *Supervisor) hold(l *Limits) (held []Held, root *limitRoot, err error) {
	add := func(limit string, value uint64, by Holder, reason string) {
		if value == 0 {
			return
		}
		if by != HeldByNone {
			reason = ""
		}
		held = append(held, Held{limit, value, by, reason})
	}
	root, controlled := s.controlled(l)
	by, reason := controlled(memoryController)
	add(LimitMemory, l.Memory, by, reason)
	if l.Memory > 0 {
		if by == HeldByCgroup && !root.swap {
			by, reason = HeldByNone, "this kernel does not limit swap by cgroup"
		}
		add(LimitSwap, l.Swap, by, reason)
	}
	by, reason = controlled(pidsController)
	add(LimitProcesses, l.Processes, by, reason)
	by, reason = controlled(cpuController)
	add(LimitCPUMillis, l.CPUMillis, by, reason)
	by, reason = HeldByRlimit, ""
	if len(s.opts.Limiter) == 0 {
		by, reason = HeldByNone, "this server has no program that sets resource limits"
	}
	add(LimitCPUTime, uint64(l.CPUTime), by, reason)
	add(LimitWallTime, uint64(l.WallTime), HeldByServer, "")
	add(LimitOutput, l.Output, HeldByServer, "")
	add(LimitFileSize, l.FileSize, by, reason)
	add(LimitOpenFiles, l.OpenFiles, by, reason)
	for _, h := range held {
		if h.By == HeldByNone && l.Require {
			return nil, nil, &LimitError{held}
		}
	}
	return held, root, nil
}

// missesReason is the reason of a limit that is not enforced on all descendants.
const missesReason = "a descendant that leaves both its session and its parent is not found without a cgroup or a sandbox"

// addMisses adds a reason to the limits that this program enforces itself if it may not find all
// descendants: the process has no cgroup and is not a launcher. (If a launcher ends, its sandbox
// ends with all its processes.)
func (p *Process) addMisses() {
	if p.cg.path != "" || p.spec.ExitGracePeriod {
		return
	}
	for i := range p.held {
		if p.held[i].By == HeldByServer {
			p.held[i].Reason = missesReason
		}
	}
}

// needsCgroup reports whether the process must not start without a cgroup. That is so if this
// program enforces a required limit itself and would miss descendants. As a subreaper, this program
// becomes the parent of a daemon. But the kernel does not report which process has started the
// daemon: the daemon's parent, which may have led its session, has ended by then. A process that is
// itself a subreaper would get children that it does not know, and lose them at its end.
func (p *Process) needsCgroup() bool {
	return p.spec.Limits.Require && !p.spec.ExitGracePeriod && slices.ContainsFunc(p.held, func(h Held) bool { return h.By == HeldByServer })
}

// refuseMisses returns the error for a process that needs a cgroup and has none.
func (p *Process) refuseMisses() error {
	if p.cg.path != "" || !p.needsCgroup() {
		return nil
	}
	p.addMisses()
	return &LimitError{p.held}
}

// controlled returns the cgroup that enforces limits, and a function that reports whether the
// cgroup has a controller. It returns nil if there is no such cgroup, or if no limit needs a
// controller.
func (s *Supervisor) controlled(l *Limits) (*limitRoot, func(controller string) (Holder, string)) {
	if l.Memory == 0 && l.Processes == 0 && l.CPUMillis == 0 {
		return nil, func(string) (Holder, string) { return HeldByNone, "" }
	}
	root, err := s.limitRoot()
	return root, func(controller string) (Holder, string) {
		switch {
		case err != nil:
			return HeldByNone, err.Error()
		case !root.have[controller]:
			return HeldByNone, "the server's cgroup has no controller " + controller
		}
		return HeldByCgroup, ""
	}
}

// Held returns how the limits of the process are enforced.
func (p *Process) Held() []Held { return p.held }

// startLimits starts the timer of the process.
func (p *Process) startLimits() {
	p.startedAt = time.Now()
	if wall := p.spec.Limits.WallTime; wall > 0 {
		p.mu.Lock()
		p.limited.timer = time.AfterFunc(wall, func() { p.exceed(CauseTimeout) })
		p.mu.Unlock()
	}
}

// exceed ends the process and its descendants because they have exceeded a limit.
func (p *Process) exceed(c Cause) {
	p.setCause(c)
	p.kill()
	p.group.forgetLeft(p)
}

// stopLimits is called when the process has closed. The timer continues for descendants that still
// run but do not hold its output open.
func (p *Process) stopLimits() {
	p.mu.Lock()
	timer := p.limited.timer
	p.mu.Unlock()
	if timer == nil || p.hasDescendants() && p.group.rememberLeft(p) {
		return
	}
	timer.Stop()
}

// hasDescendants reports whether a reaped process has left descendants.
func (p *Process) hasDescendants() bool {
	if p.cg.path != "" {
		return p.cg.populated()
	}
	for _, e := range processTable() {
		if e.session == p.pid && !e.zombie {
			return true
		}
	}
	return false
}

// rememberLeft records a process whose descendants still run, for Close. It returns false if
// the group is closed.
func (g *Group) rememberLeft(p *Process) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	if g.left == nil {
		g.left = make(map[*Process]bool)
	}
	g.left[p] = true
	return true
}

func (g *Group) forgetLeft(p *Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.left, p)
}

// stopLeft stops the timers of processes that have closed.
func (g *Group) stopLeft() {
	g.mu.Lock()
	left := g.left
	g.left = nil
	g.mu.Unlock()
	for p := range left {
		p.limited.timer.Stop()
	}
}

// allow returns how many of n more bytes of output may be delivered. If that is less than n, the
// process is killed. The caller holds p.emit.
func (p *Process) allow(n int) int {
	limit := p.spec.Limits.Output
	if limit == 0 {
		return n
	}
	allowed := int(min(uint64(n), limit-p.limited.output))
	p.limited.output += uint64(allowed)
	if allowed < n {
		p.win.count(allowed - n)
		if p.setCause(CauseOutput) {
			p.group.s.wg.Go(p.kill)
		}
	}
	return allowed
}

// cpuSlack allows for the difference between the kernel's clocks. The kernel sends SIGXCPU by the
// ticks that a process has seen, but reports the time that it ran. In a test a process got SIGXCPU
// for a limit of one second after 0.88 seconds. The kernel kills the process one second later.
const cpuSlack = 2

// exitOf returns how the process ended.
func (p *Process) exitOf(end ending) Exit {
	end.usage.Wall = time.Since(p.startedAt)
	p.account.usage(&end.usage)
	e := Exit{Code: end.code, Usage: end.usage}
	p.mu.Lock()
	e.Cause = p.cause
	p.mu.Unlock()
	const bySignal = 128
	killed := bySignal + int(syscall.SIGKILL)
	// A launcher exits with the exit code of its command, also for 128+n after signal n.
	signaled := end.signaled || p.spec.ExitGracePeriod && end.code > bySignal
	exceeded := bySignal + int(syscall.SIGXCPU)
	used := end.usage.User + end.usage.System
	switch {
	case p.spec.Limits.Memory > 0 && end.code != 0 && p.account.outOfMemory():
		e.Cause = CauseMemory
	case e.Cause != CauseExit && end.code == killed:
	case p.spec.Limits.CPUTime > 0 && (end.code == exceeded && used >= p.spec.Limits.CPUTime/cpuSlack || end.code == killed && used >= p.spec.Limits.CPUTime):
		e.Cause = CauseCPU
	case p.spec.Limits.Processes > 0 && end.code != 0 && p.account.refusedProcess():
		e.Cause = CausePIDs
	// Nothing else says that memory ran out where the process has no cgroup of its own, as in a pod. If somebody else has
	// sent SIGKILL at the same time, this is wrong.
	case signaled && end.code == killed && p.group.s.kills.count() > p.killed:
		e.Cause = CauseMemory
	case signaled:
		e.Cause = CauseSignal
	default:
		e.Cause = CauseExit
	}
	return e
}
