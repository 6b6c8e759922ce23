package machine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// userNamespaces is the feature of NeedUserNamespaces.
const userNamespaces = "user namespaces"

// variable makes a program that imports this package try to create namespaces.
const variable = "TESTUTIL_MACHINE"

// Values of the variable, before the name of the feature.
const (
	outside = "outside " // it makes the namespaces, as the user
	inside  = "inside "  // it was started in them
)

// These are the beginnings of the report of a program that has tried. They say whether the error
// after them means a missing feature.
const (
	works  = "works"
	lacks  = "lacks: "
	failed = "failed: "
)

// init does what the variable requests, and ends the program.
func init() {
	value := os.Getenv(variable)
	if value == "" {
		return
	}
	what, first := strings.CutPrefix(value, outside)
	switch {
	case first:
		fmt.Println(try(what))
	case value == inside+Namespaces:
		fmt.Println(report(view()))
	default:
		fmt.Println(works)
	}
	os.Exit(0)
}

func report(err error) string {
	switch {
	case err == nil:
		return works
	case errors.Is(err, errLack):
		return lacks + err.Error()
	default:
		return failed + err.Error()
	}
}

// namespaces creates namespaces as a user. If they are those of a sandbox, it also creates a view
// in them.
func namespaces(what string, uid int) error {
	cmd := again(outside + what)
	cmd.SysProcAttr = as(uid)
	out, err := cmd.Output()
	said := strings.TrimSpace(string(out))
	if text, ok := strings.CutPrefix(said, lacks); ok && err == nil {
		return lack{errors.New(text)}
	}
	if err != nil || said != works {
		// Use %v and not %w, because an error of the start is not the kernel's answer about the
		// feature.
		return fmt.Errorf("start this program again: %v: %s", err, said)
	}
	return nil
}

// again starts this program again.
func again(value string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	// A program with the race detector sleeps for a second at its end, unless GORACE
	// forbids it.
	cmd.Env, cmd.Dir = []string{variable + "=" + value, "GORACE=" + os.Getenv("GORACE")}, "/"
	return cmd
}

// try creates the namespaces, tests the other features in them, and returns the report.
func try(what string) string {
	cmd := again(inside + what)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
	}
	if what == Namespaces {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET
		// Without ambient capabilities, a user other than root would lose the right to mount when
		// the program is executed.
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	out, err := cmd.Output()
	if err != nil {
		// The kernel forbids namespaces, their number has reached a limit, or the kernel was built
		// without them.
		return report(only(fmt.Errorf("make %s: %w", what, err), unix.EPERM, unix.EACCES, unix.ENOSPC, unix.EUSERS, unix.EINVAL))
	}
	return strings.TrimSpace(string(out))
}

// view creates a small view with the system calls that a sandbox needs. It mounts a read-only copy
// of / and its own file system, and changes the root.
func view() error {
	const on = "/proc" // exists on every machine
	var root, context, made int
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"openat2", func() (err error) {
			root, err = unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
			return err
		}},
		{"mount", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"open_tree", func() (err error) {
			root, err = unix.OpenTree(root, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
			return err
		}},
		{"mount_setattr", func() error {
			return unix.MountSetattr(root, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
		}},
		{"move_mount", func() error { return unix.MoveMount(root, "", unix.AT_FDCWD, on, unix.MOVE_MOUNT_F_EMPTY_PATH) }},
		{"fchdir", func() error { return unix.Fchdir(root) }},
		{"pivot_root", func() error { return only(unix.PivotRoot(".", "."), unix.EINVAL) }}, // not where / is the kernel's first file system
		{"umount2", func() error { return unix.Unmount(".", unix.MNT_DETACH) }},
		{"fsopen", func() (err error) { context, err = unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC); return err }},
		{"fsconfig", func() error { return unix.FsconfigCreate(context) }},
		{"fsmount", func() (err error) { made, err = unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, 0); return err }},
		{"move_mount", func() error { return unix.MoveMount(made, "", unix.AT_FDCWD, on, unix.MOVE_MOUNT_F_EMPTY_PATH) }},
	} {
		if err := step.do(); err != nil {
			return only(fmt.Errorf("%s: %w", step.name, err), unix.ENOSYS, unix.EPERM, unix.EACCES, unix.ENOSPC)
		}
	}
	return nil
}
