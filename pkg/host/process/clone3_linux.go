package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// startsInCgroups returns why this program cannot start a process in a cgroup, or nil if it
// can. Scenario: a filter of system calls answers ENOSYS to clone3, because it cannot read
// the arguments; RestrictNamespaces= of systemd and the default profile of Docker do
// so. Other calls start processes too, but in the cgroup of this program.
func startsInCgroups() error {
	// With arguments of no size, the kernel starts nothing and answers EINVAL.
	if _, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0); errno != unix.EINVAL {
		return fmt.Errorf("start a process in a cgroup: clone3: %w: "+
			"Linux before 5.7, or a filter of system calls: under systemd, the service needs RestrictNamespaces=no", errno)
	}
	return nil
}
