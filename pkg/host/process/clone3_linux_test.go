package process

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// TestFilterHidesClone3: with a filter like that of RestrictNamespaces= of systemd, which makes
// clone3 fail with ENOSYS, no cgroups are created for processes, and the reason names the setting.
func TestFilterHidesClone3(t *testing.T) {
	t.Parallel()
	for name, try := range map[string]func() error{
		"cgroups":    func() error { _, err := newCgroupRoot(); return err },
		"controlled": func() error { _, err := newLimitRoot(); return err },
	} {
		failed := make(chan error)
		go func() {
			// The filter belongs to this thread, which ends with the goroutine.
			runtime.LockOSThread()
			if err := hideClone3(); err != nil {
				failed <- err
				return
			}
			failed <- try()
		}()
		if err := <-failed; !errors.Is(err, unix.ENOSYS) || !strings.Contains(err.Error(), "RestrictNamespaces") {
			t.Errorf(`%s: got error %v; want %v, an error with "RestrictNamespaces"`, name, err, unix.ENOSYS)
		}
	}
}

// TestStartsInCgroups calls startsInCgroups without such a filter.
func TestStartsInCgroups(t *testing.T) {
	t.Parallel()
	testutil.Need(t, "clone3", startsInCgroups(), unix.ENOSYS)
}

// hideClone3 installs a filter for the calling thread that makes clone3 fail with ENOSYS.
func hideClone3() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_CLONE3},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}
