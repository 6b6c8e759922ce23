package process

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// diesWithUs says that a process ends when this program does, whatever kills
// it. Here only the watchdog can see to that.
const diesWithUs = false

// terminalAttributes gets a terminal's attributes.
const terminalAttributes = unix.TIOCGETA

// countInput counts what can be read.
const countInput = 0x4004667f // FIONREAD of sys/filio.h

// attributes are how a process is started: in a session of its own, with the
// terminal that is its stdin if there is one.
func attributes(tty bool, _ int, _ *int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Setctty: tty}
}

// pipeCloseOnExec makes a pipe that no program inherits.
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

// keepDescriptors keeps descriptors that this program inherited from those
// that it starts; what Go opens itself is never inherited.
func keepDescriptors() {
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
