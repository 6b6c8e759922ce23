package launcher

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/machine"
	"golang.org/x/sys/unix"
)

// TestCallsThatAKernelLacks: if the kernel lacks a call that a backend needs, the launcher refuses
// that backend when it is named, and auto uses the next one.
func TestCallsThatAKernelLacks(t *testing.T) {
	for _, tt := range []struct {
		name, calls, backend string
		says                 string // expected on standard error; nothing runs
	}{
		{"no mount can be copied", machine.Refused(unix.SYS_OPEN_TREE, unix.EINVAL), "namespaces", "namespaces: cannot be used here: cannot make the sandbox: copy the mount of"},
		{"no mount can be copied", machine.Refused(unix.SYS_OPEN_TREE, unix.EINVAL), "auto", ""},
		{"a mount cannot be taken off", machine.Refused(unix.SYS_UMOUNT2, unix.EINVAL), "namespaces", "cannot make the sandbox: unmount the masks"},
		{"5.11", machine.Refused(unix.SYS_MOUNT_SETATTR, unix.ENOSYS), "namespaces", "lacks mount_setattr of 5.12"},
		{"5.11", machine.Refused(unix.SYS_MOUNT_SETATTR, unix.ENOSYS), "auto", ""},
		{"5.1", machine.Refused(unix.SYS_FSOPEN, unix.ENOSYS) + " " + machine.Refused(unix.SYS_OPENAT2, unix.ENOSYS), "auto", "lacks openat2 of 5.6"},
		{"5.8", machine.Refused(unix.SYS_CLOSE_RANGE, unix.ENOSYS), "bwrap", "lacks close_range of 5.9"},
		{"no Landlock", machine.Refused(unix.SYS_LANDLOCK_CREATE_RULESET, unix.EOPNOTSUPP), "landlock", "lsm="},
		{"4.4", machine.Refused(unix.SYS_LANDLOCK_CREATE_RULESET, unix.ENOSYS), "landlock", "lacks Landlock of 5.13"},
		{"in a sandbox of the broker", machine.Refused(unix.SYS_PRCTL, 0), "auto", "in a sandbox of the backend broker, which permits no second one"},
		{"in a sandbox whose filter asks", machine.Refused(unix.SYS_SECCOMP, unix.EBUSY), "landlock", "another sandbox supervises the system calls of this process"},
	} {
		t.Run(tt.name+" "+tt.backend, func(t *testing.T) {
			switch {
			case tt.backend == machine.Namespaces:
				machine.NeedBackend(t, machine.Namespaces)
			case tt.says == "":
				machine.NeedBackend(t, machine.Bwrap)
			}
			profile := carveOut
			if tt.backend == "landlock" {
				profile = readOnly
			}
			var out, errs bytes.Buffer
			cmd := launcherCommand(t, "--backend", tt.backend, "--sandbox-policy-cwd", "/", "--permission-profile", profile, "--", "/bin/sh", "-c", "echo ran; cat /etc/passwd")
			cmd.Env = append(cmd.Env, "LAUNCHER_TEST_REFUSED="+tt.calls)
			cmd.Dir, cmd.Stdout, cmd.Stderr = "/", &out, &errs
			err := cmd.Run()
			if tt.says == "" {
				if out.String() != "ran\n" {
					t.Errorf("got out %q, error %v, errs %s; want out %q", out.String(), err, errs.String(), "ran\n")
				}
				return
			}
			if out.Len() > 0 || err == nil || !strings.Contains(errs.String(), tt.says) {
				t.Errorf("got out %q, error %v, errs %s; want out.Len() at most 0, an error, errs with %q", out.String(), err, errs.String(), tt.says)
			}
		})
	}
}

// TestTheProbeMakesAView: the probe reports that a backend works only if its masks work.
func TestTheProbeMakesAView(t *testing.T) {
	machine.NeedBackend(t, machine.Namespaces)
	cmd := launcherCommand(t, "--probe")
	cmd.Env = append(cmd.Env, "LAUNCHER_TEST_REFUSED="+machine.Refused(unix.SYS_OPEN_TREE, unix.EINVAL))
	out, err := cmd.Output()
	if err != nil || !bytes.Contains(out, []byte(`"name":"namespaces","works":false`)) {
		t.Errorf("got error %v, out %s; want no error", err, out)
	}
}

// TestTheNextBackendGetsTheTerminal: if the first backend has given up the terminal and then fails, the
// command still gets the terminal from the next backend.
func TestTheNextBackendGetsTheTerminal(t *testing.T) {
	machine.NeedBackend(t, machine.Bwrap)
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	testutil.Need(t, "terminals", err, fs.ErrNotExist)
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := launcherCommand(t, "--backend", "auto", "--sandbox-policy-cwd", "/", "--permission-profile", readOnly, "--", "/bin/sh", "-c", "echo to the terminal > /dev/tty")
	cmd.Env = append(cmd.Env, "LAUNCHER_TEST_REFUSED="+machine.Refused(unix.SYS_MOUNT_SETATTR, unix.EINVAL))
	var errs bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = "/", slave, slave, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Run()
	_ = slave.Close()
	text, _ := io.ReadAll(master) // reading ends with EIO when no process has the other end open
	if err != nil || !strings.Contains(string(text), "to the terminal") {
		t.Errorf(`got error %v, text %q, errs %q; want no error, text with "to the terminal"`, err, text, errs.String())
	}
}
