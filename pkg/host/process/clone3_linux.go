package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// startsInCgroups returns an error if this program cannot start a process in a cgroup. Scenario: a
// system call filter makes clone3 fail with ENOSYS, because it cannot read the arguments;
// RestrictNamespaces= of systemd and Docker's default profile do so. Other system calls can start a
// process only in the cgroup of this program.
func startsInCgroups() error {
	// If the size of the arguments is 0, the kernel starts nothing and returns EINVAL.
	if _, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0); errno != unix.EINVAL {
		return fmt.Errorf("start a process in a cgroup: clone3: %w: "+
			"Linux before 5.7, or a filter of system calls: under systemd, the service needs RestrictNamespaces=no", errno)
	}
	return nil
}
