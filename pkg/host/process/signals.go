package process

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// maxSignal is the highest signal that a system has: SIGRTMAX of Linux.
const maxSignal = 64

// resetIgnoredSignals makes children start with the default disposition of the signals that this
// program inherited as ignored. It sets a handler, which exec resets to the default; an ignored
// signal would stay ignored. No goroutine reads the channel, so this program itself still ignores
// the signals.
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

// inheritedIgnored is the mask of the signals that were ignored when resetIgnoredSignals set a
// handler for them.
var inheritedIgnored atomic.Uint64

// InheritedIgnore reports whether this program ignores sig, or did so before a Supervisor was
// created. A shell starts background jobs of a script with SIGINT ignored. A server that was
// started like that must continue to ignore it.
func InheritedIgnore(sig syscall.Signal) bool {
	return isIgnored(sig) || inheritedIgnored.Load()&(1<<(sig-1)) != 0
}
