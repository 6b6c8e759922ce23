package process

import (
	"errors"
	"syscall"
)

// ending describes the end of a program. code is its exit status: 128+n after signal n, and -1 if
// it is unknown.
type ending struct {
	code     int
	signaled bool
	usage    Usage // without Wall
}

// reap waits for the end of p. If the kernel has process descriptors that can be polled, reap does
// not occupy a thread.
func (s *Supervisor) reap(p *Process, pidfd int) ending {
	if p.program != nil {
		return p.reapProgram()
	}
	var end ending
	waited := p.spec.Standby.await(p.pid, pidfd)
	if !waited {
		// The pid may be reused before reaped is set. To avoid that, the lock would have to be held
		// for the process's whole life.
		end = waitStatus(p.pid)
	}
	s.watchdog.ended(p.pid)
	p.mu.Lock()
	if waited {
		end = waitStatus(p.pid)
	}
	p.ended, p.reaped = true, true
	p.exiting.Store(true)
	p.mu.Unlock()
	s.mu.Lock()
	delete(s.pids, p.pid)
	s.mu.Unlock()

	s.lookForOrphans()
	return end
}

// waitStatus reaps a process that has ended.
func waitStatus(pid int) ending {
	var status syscall.WaitStatus
	var used syscall.Rusage
	for {
		_, err := syscall.Wait4(pid, &status, 0, &used)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return ending{code: -1}
		case status.Exited():
			return ending{code: status.ExitStatus(), usage: usageOf(&used)}
		case status.Signaled():
			return ending{code: 128 + int(status.Signal()), signaled: true, usage: usageOf(&used)}
		default:
			return ending{code: -1}
		}
	}
}

// lookForOrphans makes routineOrphans check for orphans.
func (s *Supervisor) lookForOrphans() {
	select {
	case s.checkOrphans <- struct{}{}:
	default:
	}
}

// routineOrphans reaps adopted children: descendants of this program's processes whose parents have
// ended.
func (s *Supervisor) routineOrphans() {
	for {
		select {
		case <-s.child:
		case <-s.checkOrphans:
		case <-s.stop:
			return
		}
		for s.reapOrphan() {
		}
	}
}

// reapOrphan reaps one orphan and reports whether there may be more. The kernel reports one ended
// child at a time. While it reports a child that has its own waiter, other ended orphans are not
// visible. That waiter calls lookForOrphans afterwards.
func (s *Supervisor) reapOrphan() bool {
	s.forks.Lock()
	defer s.forks.Unlock()
	pid, err := endedChild()
	if err != nil || pid == 0 {
		return false
	}
	s.mu.Lock()
	ours := s.pids[pid]
	delete(s.keepers, pid) // if it has ended, it is reaped like an orphan
	s.mu.Unlock()
	if ours || s.watchdog.isWatchdog(pid) {
		return false
	}
	waitStatus(pid)
	return true
}
