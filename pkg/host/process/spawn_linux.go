package process

import (
	"math"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// diesWithParent means that a process is killed when this program ends, by its
// parent-death signal.
const diesWithParent = true

// terminalAttributes is the ioctl that gets a terminal's attributes.
const terminalAttributes = unix.TCGETS

// countInput is the ioctl that returns how many bytes can be read.
const countInput = unix.TIOCINQ

// attributes returns how a process is started: in a session of its own, with its
// stdin as the controlling terminal if it has one, in a cgroup unless that is
// -1. pidfd receives a process descriptor if the kernel supports them.
func attributes(spec *Spec, cgroup int, pidfd *int) *syscall.SysProcAttr {
	sys := &syscall.SysProcAttr{
		Setsid:  true,
		Setctty: spec.TTY,
		PidFD:   pidfd,
		// The signal is sent when the forking thread ends. Threads of the Go
		// runtime end only with a goroutine that is locked to one, and no
		// goroutine of ours is.
		Pdeathsig: syscall.SIGKILL,
	}
	if spec.outlives {
		sys.Pdeathsig = 0
	}
	if cgroup >= 0 {
		sys.UseCgroupFD, sys.CgroupFD = true, cgroup
	}
	return sys
}

// pipeCloseOnExec makes a pipe whose ends are closed on exec.
func pipeCloseOnExec(fds *[2]int) error { return unix.Pipe2(fds[:], unix.O_CLOEXEC) }

// closeInheritedOnExec sets close-on-exec on the descriptors that this program
// inherited; those that Go opens have it already.
func closeInheritedOnExec() {
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
