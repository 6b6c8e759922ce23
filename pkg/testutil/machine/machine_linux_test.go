package machine

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// Variables that make this test program report what this machine supports: the backend, the
// system calls to refuse, and whether further user namespaces are forbidden.
const (
	backendVariable = "MACHINE_TEST_BACKEND"
	refusedVariable = "MACHINE_TEST_REFUSED"
	noMoreVariable  = "MACHINE_TEST_NO_MORE"
)

func TestMain(m *testing.M) {
	name := os.Getenv(backendVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	if os.Getenv(noMoreVariable) != "" {
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
			panic(err)
		}
	}
	RefuseCalls(os.Getenv(refusedVariable))
	fmt.Println(report(backend(name, os.Geteuid())))
	os.Exit(0)
}

// reports returns another process's report about a backend.
func reports(t *testing.T, name string, change func(*exec.Cmd)) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), backendVariable+"="+name)
	change(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("got error %v, out %s; want no error", err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestRefusedCalls: a call that the kernel lacks or forbids counts as a missing feature of the
// machine. A call that fails otherwise does not.
func TestRefusedCalls(t *testing.T) {
	for _, tt := range []struct {
		backend string
		nr      uintptr
		errno   syscall.Errno
		want    string
	}{
		{Namespaces, unix.SYS_MOUNT_SETATTR, unix.ENOSYS, lacks + "mount_setattr: "},
		{Namespaces, unix.SYS_MOUNT_SETATTR, unix.EIO, failed},
		{Namespaces, unix.SYS_MOUNT_SETATTR, unix.EINVAL, failed},
		{Namespaces, unix.SYS_OPEN_TREE, unix.EPERM, lacks + "open_tree: "},
		{Namespaces, unix.SYS_PIVOT_ROOT, unix.EINVAL, lacks + "pivot_root: "},
		{Bwrap, unix.SYS_CLOSE_RANGE, unix.ENOSYS, lacks + "close_range: "},
		{Bwrap, unix.SYS_CLOSE_RANGE, unix.EIO, failed},
		{Landlock, unix.SYS_LANDLOCK_CREATE_RULESET, unix.ENOSYS, lacks + "ask for Landlock: "},
		{Landlock, unix.SYS_LANDLOCK_CREATE_RULESET, unix.EOPNOTSUPP, lacks + "ask for Landlock: "},
		{Landlock, unix.SYS_LANDLOCK_CREATE_RULESET, unix.EIO, failed},
		{userNamespaces, unix.SYS_MOUNT_SETATTR, unix.ENOSYS, works},
	} {
		calls := Refused(tt.nr, tt.errno)
		t.Run(tt.backend+" "+calls, func(t *testing.T) {
			switch tt.backend {
			case Namespaces:
				NeedBackend(t, Namespaces)
			case userNamespaces:
				NeedUserNamespaces(t)
			}
			got := reports(t, tt.backend, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, refusedVariable+"="+calls) })
			if !strings.HasPrefix(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestNoMoreUserNamespaces: a reached limit of the kernel counts as a missing feature.
func TestNoMoreUserNamespaces(t *testing.T) {
	NeedUserNamespaces(t)
	NeedSettings(t)
	for _, name := range []string{Namespaces, userNamespaces} {
		got := reports(t, name, func(cmd *exec.Cmd) {
			cmd.Env = append(cmd.Env, noMoreVariable+"=1")
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  unix.CLONE_NEWUSER,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
			}
		})
		if want := lacks + "make " + name; !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestBwrapsThatFail: if bwrap is missing, or reports that the kernel refuses an operation, the
// machine lacks the feature. If bwrap fails without a message, it is broken.
func TestBwrapsThatFail(t *testing.T) {
	for script, want := range map[string]string{
		"": lacks,
		"echo 'bwrap: No permissions to create new namespace' >&2; exit 1": lacks,
		"echo 'bwrap: No permissions to create new namespace' >&2; exit 2": failed,
		"exit 1":        failed,
		"kill -SEGV $$": failed,
		"exit 0":        works,
	} {
		dir := t.TempDir()
		if script != "" {
			if err := testutil.WriteProgram(dir+"/bwrap", []byte("#!/bin/sh\n"+script+"\n")); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", dir)
		if got := report(backend(Bwrap, os.Geteuid())); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %q, want %q", script, got, want)
		}
	}
}

// TestAnotherUser: the abilities of another user are tested as that user.
func TestAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	const nobody = 65534
	for _, name := range []string{Namespaces, userNamespaces, Bwrap, Landlock} {
		if got := report(backend(name, nobody)); got != works && !strings.HasPrefix(got, lacks) {
			t.Errorf("%s: got %q, want a text beginning with %q", name, got, lacks)
		}
	}
}

// TestUnknownBackend: a misspelled backend does not count as a missing feature.
func TestUnknownBackend(t *testing.T) {
	if got := report(backend("namespace", os.Geteuid())); !strings.HasPrefix(got, failed) {
		t.Errorf("got %q, want a text beginning with %q", got, failed)
	}
}
