package process

import (
	"syscall"

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
		case err == unix.EINTR:
		case err != nil:
			return err == unix.ESRCH
		case n == 1 && answer[0].Flags&unix.EV_ERROR != 0:
			// One that has ended already cannot be asked about.
			return syscall.Errno(answer[0].Data) == unix.ESRCH
		case n == 1:
			return true
		}
	}
}

// endedChild is for the children that a subreaper adopts: there are none.
func endedChild() (int, error) { return 0, unix.ENOSYS }

// becomeSubreaper reports that the system has no such thing: orphans are
// adopted by launchd.
func becomeSubreaper() (bool, error) { return false, nil }
