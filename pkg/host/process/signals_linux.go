package process

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// isIgnored asks the kernel whether this program ignores a signal. It returns false for an unknown
// signal. os/signal reports only the signals that the Go runtime handles.
func isIgnored(sig syscall.Signal) bool {
	// The kernel's struct sigaction begins with the handler on every system for which codex is
	// built. It has at most four words with a mask of 8 bytes.
	const ignore, maskSize = 1, 8
	var action [4]uintptr
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&action)), maskSize, 0, 0)
	return errno == 0 && action[0] == ignore
}

// UnblockSignals makes sure that no signal is blocked in this program and in the processes that it
// starts. The Go runtime passes the inherited mask to every thread and child. So if signals are
// blocked, UnblockSignals executes the program again without the mask. It must be called before the
// program changes any state that an exec would lose. It returns nil if no signal is blocked, or the
// error of executing the program again.
func UnblockSignals() error {
	var none, blocked unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, nil, &blocked); err != nil {
		return fmt.Errorf("read the blocked signals: %w", err)
	}
	if blocked == none {
		return nil
	}
	runtime.LockOSThread() // the mask belongs to a thread, and the exec keeps the calling thread's
	defer runtime.UnlockOSThread()
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &none, nil); err != nil {
		return fmt.Errorf("unblock signals: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("unblock signals: %w", err)
	}
	return fmt.Errorf("unblock signals: execute %s: %w", self, syscall.Exec(ownProgram(self), os.Args, os.Environ()))
}
