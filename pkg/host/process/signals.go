//go:build linux || darwin

package process

import (
	"os"
	"os/signal"
	"syscall"
)

// undoIgnored makes children start with default dispositions even where this
// program inherited that a signal is ignored. A handler does that: it does
// not survive the exec, while "ignored" does. The signals go to a channel
// that nobody reads, so for this program they are ignored as before.
func undoIgnored(to chan<- os.Signal) {
	mask := ignoredSignals()
	var ignored []os.Signal
	for n := range 64 {
		if mask&(1<<n) != 0 {
			ignored = append(ignored, syscall.Signal(n+1))
		}
	}
	if len(ignored) > 0 {
		signal.Notify(to, ignored...)
	}
}

// InheritedIgnore reports whether this program ignored sig when it asked. A
// server that was started in the background of a script is meant to ignore
// the terminal's interrupt.
func InheritedIgnore(sig syscall.Signal) bool {
	return ignoredSignals()&(1<<(sig-1)) != 0
}
