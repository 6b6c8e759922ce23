package process

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ignoredSignals returns the mask of the signals that this program ignores.
func ignoredSignals() uint64 { return statusMask("SigIgn:") }

// statusMask returns a signal mask of this thread from /proc, or 0 if it cannot
// be read.
func statusMask(name string) uint64 {
	text, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			mask, _ := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			return mask
		}
	}
	return 0
}

// UnblockSignals makes sure that no signal is blocked in this program and in the
// processes that it starts. The Go runtime passes the inherited mask to every
// thread and child, so if signals are blocked, the program is executed again
// without the mask. UnblockSignals must be called before the program changes
// anything that an exec would lose. It returns nil if no signal is blocked, or
// the error that kept the program from being executed again.
func UnblockSignals() error {
	// A thread that starts another one has all signals blocked for a moment.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if statusMask("SigBlk:") == 0 {
		return nil
	}
	var none unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &none, nil); err != nil {
		return fmt.Errorf("unblock signals: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("unblock signals: %w", err)
	}
	return fmt.Errorf("unblock signals: execute %s: %w", self, syscall.Exec(self, os.Args, os.Environ()))
}
