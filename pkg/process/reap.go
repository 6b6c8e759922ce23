package process

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// reap waits for the end of p and returns its exit code: the status, 128+n
// after signal n, -1 when it is not known. It does not hold a thread where
// the kernel has process descriptors that can be polled.
func (s *Supervisor) reap(p *Process, pidfd int) int {
	if pidfd >= 0 {
		waitPollable(pidfd)
	}
	// What comes now does not block if the descriptor told the truth.
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, p.pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	code := waitStatus(p.pid)
	p.reaped = true
	p.exiting.Store(true)
	p.mu.Unlock()
	s.mu.Lock()
	delete(s.pids, p.pid)
	s.mu.Unlock()

	s.lookForOrphans()
	return code
}

// waitPollable returns when the process has ended, or at once when the
// descriptor cannot be polled. It closes the descriptor.
func waitPollable(pidfd int) {
	if unix.SetNonblock(pidfd, true) != nil {
		_ = unix.Close(pidfd)
		return
	}
	f := os.NewFile(uintptr(pidfd), "pidfd")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return err != nil && err != unix.EINTR || n > 0
	})
}

// waitStatus reaps a process that has ended.
func waitStatus(pid int) int {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
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

// lookForOrphans has routineOrphans look again.
func (s *Supervisor) lookForOrphans() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// routineOrphans reaps the children that are nobody's: descendants of our
// processes whose parents have ended.
func (s *Supervisor) routineOrphans() {
	for {
		select {
		case <-s.child:
		case <-s.poke:
		case <-s.stop:
			return
		}
		for s.reapOrphan() {
		}
	}
}

// reapOrphan reaps one orphan and reports whether there may be more. The
// system tells about one ended child at a time, so behind a child whose
// waiter has not come yet it sees none; that waiter has us look again.
func (s *Supervisor) reapOrphan() bool {
	s.forks.Lock()
	defer s.forks.Unlock()
	pid, err := endedChild()
	if err != nil || pid == 0 {
		return false
	}
	s.mu.Lock()
	_, ours := s.pids[pid]
	s.mu.Unlock()
	if ours || s.dog.isWatchdog(pid) {
		return false
	}
	waitStatus(pid)
	return true
}

// endedChild returns the pid of a child that can be reaped, or 0.
func endedChild() (int, error) {
	var info siginfo
	err := waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG)
	return int(info.pid), err
}
