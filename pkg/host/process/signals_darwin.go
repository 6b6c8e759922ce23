package process

import (
	"os/signal"
	"syscall"
)

// ignoredSignals returns the mask of the ignored signals among SIGHUP and SIGINT,
// which the Go runtime leaves ignored. The other inherited dispositions cannot
// be read on macOS; the runtime handles most of them, so children start with
// the default.
func ignoredSignals() (mask uint64) {
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			mask |= 1 << (sig - 1)
		}
	}
	return mask
}

// UnblockSignals does nothing on macOS: without the C library a program can
// neither read nor change the signal mask that it inherited. If the server is
// started with signals blocked, its processes have the same signals blocked.
func UnblockSignals() error { return nil }
