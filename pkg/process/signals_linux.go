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

// statusMask reads a mask of signals from /proc/self/status; 0 when there is
// none.
func statusMask(name string) uint64 {
	text, err := os.ReadFile("/proc/self/status")
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
// inherited down to every child, so when there is one the program is executed
// again without it. To be called first thing in main; it returns when there
// is nothing to do, or an error when that failed.
func UnblockSignals() error {
	if statusMask("SigBlk:") == 0 {
		return nil
	}
	runtime.LockOSThread()
	var none unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &none, nil); err != nil {
		return fmt.Errorf("unblock signals: %w", err)
	}
	if statusMask("SigBlk:") != 0 {
		runtime.UnlockOSThread()
		return nil // other threads' business: nothing that was inherited
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("unblock signals: %w", err)
	}
	return fmt.Errorf("unblock signals: execute %s: %w", self, syscall.Exec(self, os.Args, os.Environ()))
}
