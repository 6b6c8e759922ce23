package initproc

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Failure is a failed call with its error.
type Failure struct {
	What, Path string // as in Step
	Number     uintptr
	Errno      syscall.Errno
}

func (f *Failure) Error() string {
	what := f.What
	if f.Path != "" {
		what += " " + f.Path
	}
	return what + ": " + ErrnoText(f.Errno) + f.reason()
}

// Unwrap returns the kernel's error.
func (f *Failure) Unwrap() error { return f.Errno }

// ErrnoText returns the system's text of an error with its number, in the form that all parts of codex use.
func ErrnoText(e syscall.Errno) string {
	text := []byte(e.Error())
	if len(text) > 0 && 'a' <= text[0] && text[0] <= 'z' {
		text[0] -= 'a' - 'A'
	}
	return fmt.Sprintf("%s (os error %d)", text, int(e))
}

// since maps system calls to the version of Linux that introduced them. Some kernels in use lack
// these calls.
var since = map[uintptr]string{
	unix.SYS_SECCOMP: "seccomp of 3.17", unix.SYS_OPENAT2: "openat2 of 5.6",
	unix.SYS_FSOPEN: "fsopen of 5.2", unix.SYS_FSCONFIG: "fsconfig of 5.2", unix.SYS_FSMOUNT: "fsmount of 5.2",
	unix.SYS_MOVE_MOUNT: "move_mount of 5.2", unix.SYS_OPEN_TREE: "open_tree of 5.2",
	unix.SYS_MOUNT_SETATTR: "mount_setattr of 5.12", unix.SYS_CLOSE_RANGE: "close_range of 5.9",
	unix.SYS_LANDLOCK_CREATE_RULESET: "Landlock of 5.13",
}

// reason returns what is known about the reason: another sandbox, or the version of Linux that introduced the call, if this kernel lacks it.
func (f *Failure) reason() string {
	if f.Number == unix.SYS_SECCOMP && f.Errno == unix.EBUSY {
		return "; another sandbox supervises the system calls of this process, and the kernel permits one such filter: " +
			"run the command without a sandbox of its own, or the outer one with --allow-nesting"
	}
	if f.Errno != unix.ENOSYS || since[f.Number] == "" {
		return ""
	}
	var name unix.Utsname
	_ = unix.Uname(&name)
	return fmt.Sprintf("; Linux %s lacks %s, or a filter of system calls hides it", unix.ByteSliceToString(name.Release[:]), since[f.Number])
}
