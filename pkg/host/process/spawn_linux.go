package process

import (
	"math"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// diesWithParent means that the kernel kills a process when this program ends, by its parent-death
// signal.
const diesWithParent = true

// terminalAttributes is the ioctl that gets a terminal's attributes.
const terminalAttributes = unix.TCGETS

// countInput is the ioctl that returns how many bytes can be read.
const countInput = unix.TIOCINQ

// attributes returns how to start a process: in its own session, with its stdin as the controlling
// terminal if that is a terminal, and in a cgroup unless cgroup is -1. pidfd receives a process
// descriptor if the kernel supports them.
func attributes(spec *Spec, cgroup int, pidfd *int) *syscall.SysProcAttr {
	sys := &syscall.SysProcAttr{
		Setsid:  true,
		Setctty: spec.TTY,
		PidFD:   pidfd,
		// The signal is sent when the forking thread ends. A thread of the Go runtime ends only
		// together with a goroutine that is locked to it, and this program locks none.
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

// closeInheritedOnExec sets close-on-exec on the descriptors that this program inherited.
// Descriptors that Go opens have it already.
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
