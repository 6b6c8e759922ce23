package process

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// maxSignal is the highest signal that a system has: SIGRTMAX of Linux.
const maxSignal = 64

// resetIgnoredSignals makes children start with the default disposition of the
// signals that this program inherited as ignored: it sets a handler, which an
// exec resets, whereas an exec keeps an ignored signal ignored. No goroutine
// reads the channel, so this program itself still ignores the signals.
func resetIgnoredSignals(to chan<- os.Signal) {
	var ignored []os.Signal
	for sig := syscall.Signal(1); sig <= maxSignal; sig++ {
		if isIgnored(sig) {
			inheritedIgnored.Or(1 << (sig - 1))
			ignored = append(ignored, sig)
		}
	}
	if len(ignored) > 0 {
		signal.Notify(to, ignored...)
	}
}

// inheritedIgnored is the mask of the signals that resetIgnoredSignals has found
// ignored, and for which it has set a handler.
var inheritedIgnored atomic.Uint64

// InheritedIgnore reports whether this program ignores sig, or did so before a
// Supervisor was made. A shell starts background jobs of a script with SIGINT
// ignored, and a server that was started like that must continue to ignore it.
func InheritedIgnore(sig syscall.Signal) bool {
	return isIgnored(sig) || inheritedIgnored.Load()&(1<<(sig-1)) != 0
}
