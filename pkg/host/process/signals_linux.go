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

// ignoredSignals is the mask of the signals that this program ignores.
func ignoredSignals() uint64 { return statusMask("SigIgn:") }

// statusMask reads a mask of signals of this thread from /proc; 0 when there is
// none.
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

// UnblockSignals makes sure that no signal is blocked, neither here nor in
// processes that are started later. The Go runtime hands the mask that it
// inherited down to every thread and child, so when there is one the program is
// executed again without it. To be called before anything is changed that would
// be missing then, such as the environment; it returns when there is nothing to
// do, or an error when that failed.
func UnblockSignals() error {
	// Other threads block everything for moments, in which they start threads.
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
