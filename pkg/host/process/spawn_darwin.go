package process

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// diesWithParent says that a process is killed when this program ends. macOS has
// no parent-death signal: the watchdog kills the processes.
const diesWithParent = false

// terminalAttributes is the ioctl that gets a terminal's attributes.
const terminalAttributes = unix.TIOCGETA

// countInput is the ioctl that returns how many bytes can be read.
const countInput = 0x4004667f // FIONREAD of sys/filio.h

// attributes returns how a process is started: in a session of its own, with its
// stdin as the controlling terminal if it has one.
func attributes(spec *Spec, _ int, _ *int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Setctty: spec.TTY}
}

// dieWithParent does nothing: see diesWithParent.
func dieWithParent() {}

// pipeCloseOnExec makes a pipe whose ends are closed on exec.
func pipeCloseOnExec(fds *[2]int) error {
	// No fork may come between the two steps.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := unix.Pipe(fds[:]); err != nil {
		return err
	}
	unix.CloseOnExec(fds[0])
	unix.CloseOnExec(fds[1])
	return nil
}

// closeInheritedOnExec sets close-on-exec on the descriptors that this program
// inherited; those that Go opens have it already.
func closeInheritedOnExec() {
	const first = 3
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		return
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
}
