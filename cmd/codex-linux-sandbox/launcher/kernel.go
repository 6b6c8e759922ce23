package launcher

import (
	"fmt"
	"math"
	"syscall"

	"golang.org/x/sys/unix"
)

// since is the version of Linux that brought a system call which not every
// kernel in use has.
var since = map[uintptr]string{
	unix.SYS_SECCOMP: "seccomp of 3.17", unix.SYS_OPENAT2: "openat2 of 5.6",
	unix.SYS_FSOPEN: "fsopen of 5.2", unix.SYS_FSCONFIG: "fsconfig of 5.2", unix.SYS_FSMOUNT: "fsmount of 5.2",
	unix.SYS_MOVE_MOUNT: "move_mount of 5.2", unix.SYS_OPEN_TREE: "open_tree of 5.2",
	unix.SYS_MOUNT_SETATTR: "mount_setattr of 5.12", unix.SYS_CLOSE_RANGE: "close_range of 5.9",
	unix.SYS_LANDLOCK_CREATE_RULESET: "Landlock of 5.13",
}

// missing says, in addition to an error, which version has what this kernel
// has not.
func missing(nr uintptr, errno syscall.Errno) string {
	if errno != unix.ENOSYS || since[nr] == "" {
		return ""
	}
	return fmt.Sprintf("; %s lacks %s, or a filter of system calls hides it", thisKernel(), since[nr])
}

// thisKernel is the kernel's name and version.
func thisKernel() string {
	var name unix.Utsname
	_ = unix.Uname(&name)
	return "Linux " + unix.ByteSliceToString(name.Release[:])
}

// kernelRefusal says what all backends need and this kernel lacks.
func kernelRefusal() error {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err != nil {
		errno, _ := err.(syscall.Errno)
		return (&step{what: "open", path: "/", nr: unix.SYS_OPENAT2}).fail(errno)
	}
	_ = unix.Close(fd)
	return nil
}

// bwrapRefusal says what the janitor needs and this kernel lacks: it must hold
// nothing but what it removes. The namespaces need a newer kernel anyway.
func bwrapRefusal() error {
	err := unix.CloseRange(math.MaxInt32, math.MaxInt32, 0)
	if errno, ok := err.(syscall.Errno); ok {
		return (&step{what: "close", path: "descriptors", nr: unix.SYS_CLOSE_RANGE}).fail(errno)
	}
	return nil
}
