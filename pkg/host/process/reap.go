//go:build linux || darwin

package process

import (
	"errors"
	"syscall"
)

// reap waits for the end of p and returns its exit code: the status, 128+n
// after signal n, -1 when it is not known. It does not hold a thread where
// the kernel has process descriptors that can be polled.
func (s *Supervisor) reap(p *Process, pidfd int) int {
	code, waited := 0, p.spec.Standby.await(p.pid, pidfd)
	if !waited {
		// Another process may get the pid before reaped is set. The
		// alternative is to hold the lock for the process's whole life.
		code = waitStatus(p.pid)
	}
	s.watchdog.ended(p.pid)
	p.mu.Lock()
	if waited {
		code = waitStatus(p.pid)
	}
	p.ended, p.reaped = true, true
	p.exiting.Store(true)
	p.mu.Unlock()
	s.mu.Lock()
	delete(s.pids, p.pid)
	s.mu.Unlock()

	s.lookForOrphans()
	return code
}

// waitStatus reaps a process that has ended.
func waitStatus(pid int) int {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return -1
		case status.Exited():
			return status.ExitStatus()
		case status.Signaled():
			return 128 + int(status.Signal())
		default:
			return -1
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

// routineOrphans reaps adopted children: descendants of our processes whose
// parents have ended.
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

// reapOrphan reaps one orphan and reports whether there may be more. The kernel
// reports one ended child at a time. While it reports a child that has a waiter
// of its own, no orphan is seen; that waiter calls lookForOrphans afterwards.
func (s *Supervisor) reapOrphan() bool {
	s.forks.Lock()
	defer s.forks.Unlock()
	pid, err := endedChild()
	if err != nil || pid == 0 {
		return false
	}
	s.mu.Lock()
	ours := s.pids[pid]
	delete(s.keepers, pid) // one that has ended is reaped as an orphan is
	s.mu.Unlock()
	if ours || s.watchdog.isWatchdog(pid) {
		return false
	}
	waitStatus(pid)
	return true
}
