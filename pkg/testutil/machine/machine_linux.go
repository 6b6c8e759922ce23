package machine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// Names of the backends.
const (
	Namespaces = "namespaces"
	Bwrap      = "bwrap"
	Landlock   = "landlock"
	Broker     = "broker"
)

// landlockBackend is the version of Landlock that the backend needs (docs/kernels.md).
const landlockBackend = 6

// brokerBackend is the version of Landlock that the backend broker needs.
const brokerBackend = 2

// errLack matches errors that mean that the machine lacks a feature.
var errLack = errors.New("the machine lacks it")

// lack marks an error as a missing feature of the machine.
type lack struct{ error }

func (lack) Is(target error) bool { return target == errLack }

func (l lack) Unwrap() error { return l.error }

// only marks err as a missing feature of the machine if err is one of the errors in the list of.
func only(err error, of ...syscall.Errno) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok && slices.Contains(of, errno) {
		return lack{err}
	}
	return err
}

// NeedBackend skips a test on a machine that does not support a backend for the user of the test.
// If several backends are named, the machine must support one of them.
func NeedBackend(t testing.TB, names ...string) {
	t.Helper()
	NeedBackendAs(t, os.Geteuid(), names...)
}

// NeedBackendAs is NeedBackend for another user, which only root can become.
func NeedBackendAs(t testing.TB, uid int, names ...string) {
	t.Helper()
	var err error
	for _, name := range names {
		if err = backendOnce(name, uid); !errors.Is(err, errLack) {
			break // the feature exists, or the test fails
		}
	}
	testutil.Need(t, fmt.Sprintf("%s for user %d", strings.Join(names, " or "), uid), err, errLack)
}

// Has reports whether the machine supports a backend, for a user. If that cannot be determined, the test
// fails.
func Has(t testing.TB, uid int, name string) bool {
	t.Helper()
	err := backendOnce(name, uid)
	if err != nil && !errors.Is(err, errLack) {
		t.Fatalf("find out whether the machine has %s for user %d: %v", name, uid, err)
	}
	return err == nil
}

// NeedUserNamespaces skips a test on a machine on which the user of the test can make no user namespace.
func NeedUserNamespaces(t testing.TB) {
	t.Helper()
	testutil.Need(t, "user namespaces for its users", backendOnce(userNamespaces, os.Geteuid()), errLack)
}

// NeedLandlock skips a test on a machine that does not have a version of Landlock, and returns the one
// that it has.
func NeedLandlock(t testing.TB, version int) int {
	t.Helper()
	has, err := landlock(version)
	testutil.Need(t, fmt.Sprintf("Landlock of version %d", version), err, errLack)
	return has
}

// NeedSettings skips a test on a machine on which even root cannot write to /proc/sys, as
// in most containers.
func NeedSettings(t testing.TB) {
	t.Helper()
	var st unix.Statfs_t
	err := unix.Statfs("/proc/sys", &st)
	if err == nil && st.Flags&unix.ST_RDONLY != 0 {
		err = unix.EROFS
	}
	testutil.Need(t, "/proc/sys that can be written to", err, unix.EROFS)
}

// known has the results for a backend and a user.
var known struct {
	sync.Mutex
	of map[string]error
}

func backendOnce(name string, uid int) error {
	known.Lock()
	defer known.Unlock()
	key := fmt.Sprint(name, " ", uid)
	err, ok := known.of[key]
	if !ok {
		if known.of == nil {
			known.of = map[string]error{}
		}
		err = backend(name, uid)
		known.of[key] = err
	}
	return err
}

// backend returns nil if the machine supports the backend. If it does not, the error is errLack; any
// other error means that this could not be determined.
func backend(name string, uid int) error {
	switch name {
	case Namespaces, userNamespaces:
		return namespaces(name, uid)
	case Bwrap:
		return bwrap(uid)
	case Landlock:
		_, err := landlock(landlockBackend)
		return err
	case Broker:
		if _, err := landlock(brokerBackend); err != nil {
			return err
		}
		return supervision()
	default:
		return fmt.Errorf("no backend is called %q", name)
	}
}

func landlock(version int) (int, error) {
	abi, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case errno != 0: // the kernel is old, or was booted without it
		return 0, only(fmt.Errorf("ask for Landlock: %w", errno), unix.ENOSYS, unix.EOPNOTSUPP)
	case int(abi) < version:
		return 0, lack{fmt.Errorf("there is version %d", abi)}
	}
	return int(abi), nil
}

// supervision returns nil if a process can make the calls of another one, as the backend broker does.
func supervision() error {
	// The kernel looks at the flags first, and then finds no filter.
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, 0)
	if errno != unix.EFAULT {
		return only(fmt.Errorf("ask for a filter that stops calls: %w", errno), unix.EINVAL, unix.ENOSYS, unix.EPERM)
	}
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if err == nil && strings.TrimSpace(string(scope)) > "1" {
		return lack{fmt.Errorf("kernel.yama.ptrace_scope is %s", strings.TrimSpace(string(scope)))}
	}
	return nil
}

// bwrap runs bwrap directly. It does not use the launcher, nor the options that only the launcher
// uses.
func bwrap(uid int) error {
	if err := closeRange(); err != nil {
		return err
	}
	program, err := exec.LookPath("bwrap")
	if errors.Is(err, exec.ErrNotFound) {
		return lack{err}
	} else if err != nil {
		return err
	}
	cmd := exec.Command(program, "--unshare-user", "--unshare-pid", "--unshare-net",
		"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--", "true")
	cmd.Dir, cmd.SysProcAttr = "/", as(uid)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("run %s: %w: %s", program, err, strings.TrimSpace(string(out)))
	// bwrap begins its message with its name if the kernel refuses an operation.
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 1 && strings.HasPrefix(string(out), "bwrap: ") {
		return lack{err}
	}
	return err
}

// closeRange makes the system call of Linux 5.9 that the backend bwrap needs.
func closeRange() error {
	const none = 1<<31 - 1 // no descriptor
	if err := unix.CloseRange(none, none, 0); err != nil {
		return only(fmt.Errorf("close_range: %w", err), unix.ENOSYS, unix.EPERM)
	}
	return nil
}

// as starts a process as a user.
func as(uid int) *syscall.SysProcAttr {
	if uid == os.Geteuid() {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
}
