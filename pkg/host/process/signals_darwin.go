package process

import (
	"os/signal"
	"syscall"
)

// ignoredSignals is the mask of the signals that this program ignores: those
// of the two that the Go runtime leaves ignored. The rest of the inherited
// dispositions cannot be asked for here; the runtime handles most of them,
// so that children get the default.
func ignoredSignals() (mask uint64) {
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			mask |= 1 << (sig - 1)
		}
	}
	return mask
}

// UnblockSignals does nothing here: without the C library neither can the
// inherited mask be asked for, nor changed. Whoever starts the server with
// signals blocked has processes with the same signals blocked.
func UnblockSignals() error { return nil }
