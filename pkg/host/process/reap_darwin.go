package process

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// awaitEnd returns when the process has ended, without reaping it, and false
// at once when there is no descriptor left to wait with. It holds a thread:
// the system has no process descriptors.
func awaitEnd(pid, _ int) bool {
	queue, err := unix.Kqueue() // a fork does not inherit it
	if err != nil {
		return false
	}
	defer unix.Close(queue)
	ask := make([]unix.Kevent_t, 1)
	unix.SetKevent(&ask[0], pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	ask[0].Fflags = unix.NOTE_EXIT
	answer := make([]unix.Kevent_t, 1)
	for {
		n, err := unix.Kevent(queue, ask, answer, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return errors.Is(err, unix.ESRCH)
		case n == 1 && answer[0].Flags&unix.EV_ERROR != 0:
			// ESRCH: the process has ended already.
			return syscall.Errno(answer[0].Data) == unix.ESRCH
		case n == 1:
			return true
		}
	}
}

// endedChild returns an error: macOS has no subreapers, so there are no adopted
// children.
func endedChild() (int, error) { return 0, unix.ENOSYS }

// becomeSubreaper returns false: macOS has no subreapers, launchd adopts orphans.
func becomeSubreaper() (bool, error) { return false, nil }

// usageOf returns what the system counts. It counts no bytes of storage.
func usageOf(r *syscall.Rusage) Usage {
	return Usage{User: time.Duration(r.Utime.Nano()), System: time.Duration(r.Stime.Nano()), MaxRSS: uint64(r.Maxrss)}
}
