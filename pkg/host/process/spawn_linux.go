package process

import (
	"math"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// diesWithUs says that a process ends when this program does, whatever kills
// it.
const diesWithUs = true

// terminalAttributes gets a terminal's attributes.
const terminalAttributes = unix.TCGETS

// countInput counts what can be read.
const countInput = unix.TIOCINQ

// attributes are how a process is started: in a session of its own, with the
// terminal that is its stdin if there is one, in a cgroup unless that is -1.
// pidfd gets a descriptor for it where the kernel has that.
func attributes(tty bool, cgroup int, pidfd *int) *syscall.SysProcAttr {
	sys := &syscall.SysProcAttr{
		Setsid:  true,
		Setctty: tty,
		PidFD:   pidfd,
		// The signal comes when the thread that forked ends. Threads of the
		// Go runtime end only with a goroutine that is locked to one, and
		// none of ours is.
		Pdeathsig: syscall.SIGKILL,
	}
	if cgroup >= 0 {
		sys.UseCgroupFD, sys.CgroupFD = true, cgroup
	}
	return sys
}

// pipeCloseOnExec makes a pipe that no program inherits.
func pipeCloseOnExec(fds *[2]int) error { return unix.Pipe2(fds[:], unix.O_CLOEXEC) }

// keepDescriptors keeps descriptors that this program inherited from those
// that it starts; what Go opens itself is never inherited.
func keepDescriptors() {
	const first = 3
	if unix.CloseRange(first, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
}
